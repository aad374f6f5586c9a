"""Text that a run does not learn from alone: what it is not to forget, which is watched, and what goes along.

Both are copied into the run's folder, so a run that is resumed needs neither the files nor the run that it began with.
Knows no steps.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from transformer_cli.adapters.corpora.formats import ONE_SIDE, format_of, paired, read_texts, require_files
from transformer_cli.compute.devices import choose_device
from transformer_cli.compute.world import World
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, EncodedSplit, Pair, Rows, Side, find_dataset
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import START, load_validated
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average, validations_so_far
from transformer_cli.scoring.evaluate import ParallelText, judge
from transformer_cli.scoring.losses import Losses
from transformer_cli.search.decoder import TransformerEngine
from transformer_cli.system.files import read_sums, write_sums, write_text
from transformer_cli.system.terminal import counted, note
from transformer_cli.text.codec import SIDES, Codecs
from transformer_cli.text.lines import read_lines
from transformer_cli.translate import Translator, open_models

KINDS = ("watch", "along")
JUDGED = 300  # lines of each text, at most, that are translated at the end
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the start's weights, which are tried where text is watched

log = logging.getLogger(__name__)


def read_beside(config: Config, dataset: Dataset, runs_dir: Path) -> dict[str, list[Pair]]:
    """Returns the pairs that training.watch and training.along name, as far as they name any.

    Raises DataError for files that cannot be read, or have no pair; otherwise as `Translator.load` does.
    """
    found = {}
    for kind in KINDS:
        if names := getattr(config.training, kind):
            pairs = _pairs(kind, names, config, dataset, runs_dir)
            found[kind] = [pair for pair in pairs if all(map(str.strip, pair))]
            if not found[kind]:
                raise DataError(f"training.{kind}: {', '.join(names)}: no pair of sentences; name other text")
    return found


def _pairs(kind: str, names: Sequence[str], config: Config, dataset: Dataset, runs_dir: Path) -> list[Pair]:
    if len(names) == 1 and names[0] in dataset.manifest["splits"]:
        return list(zip(*(dataset.text(names[0], side) for side in SIDES), strict=True))
    paths = [Path(name) for name in names]
    require_files((f"training.{kind}", path) for path in paths)
    if kind == "along" and len(paths) == 1 and format_of(paths[0], config.data) == ONE_SIDE:
        lines = list(read_lines(paths[0]))
        note(f"{paths[0]}: {counted(len(lines), 'line')} are translated by {config.training.initialize_from}")
        start = Run.named(config.training.initialize_from, runs_dir)
        translator = Translator([start], *open_models([start], config.training.device))
        return list(zip(lines, translator.with_options(on_error="blank").translate(lines), strict=True))
    texts = read_texts(paired(paths, config.data), config.data)
    return [(source, target) for source, target, _ in texts]


def keep_beside(run: Run, beside: Mapping[str, Sequence[Pair]]) -> None:
    """Write what `read_beside` returned into a run's folder, with its sums."""
    for kind, pairs in beside.items():
        for side, lines in zip(SIDES, zip(*pairs, strict=True), strict=True):
            write_text(run.folder / f"{kind}.{side}.txt", "".join(f"{line}\n" for line in lines))
    write_sums(run.folder, [*read_sums(run.folder), *(f"{kind}.{side}.txt" for kind in beside for side in SIDES)])


def kept_text(run: Run, kind: str) -> tuple[list[str], list[str]]:
    """Returns source and target of a text that was kept. Raises DataError."""
    source, target = (list(read_lines(run.folder / f"{kind}.{side}.txt")) for side in SIDES)
    return source, target


def encoded_beside(run: Run) -> dict[str, EncodedSplit]:
    """Returns the texts that a run has beside its dataset, encoded. Raises DataError if one is gone."""
    return {kind: encoded(kept_text(run, kind), run.codecs) for kind in KINDS if getattr(run.config.training, kind)}


def encoded(sides: Iterable[Iterable[str]], codecs: Codecs) -> EncodedSplit:
    """Returns a text, source and target, encoded."""
    return EncodedSplit(
        *(
            Side.of([codec.encode(line).ids for line in lines])
            for codec, lines in zip((codecs.source, codecs.target), sides, strict=True)
        )
    )


def as_table(run: Run, *, data_dir: Path = Path("data")) -> list[tuple[str, ...]]:
    """Returns the losses of the validation text and of what is watched, by validations, and BLEU of both ends, as rows.

    BLEU is that of the first lines of each text. Raises DataError, and as `Translator.load` does.
    """
    dataset = Dataset.open(find_dataset(run.config.data, data_dir))
    texts = [[dataset.text("valid", side) for side in SIDES], kept_text(run, "watch")]
    bleu, device = [], run.config.training.device
    start = load_validated(run, START).to(choose_device(device)).eval()  # its run may be gone, or trained further
    now = Translator([run], *open_models([run], device))
    for translator in (Translator([run], TransformerEngine([start]), ["start"]), now):
        some = (ParallelText("", source[:JUDGED], [target[:JUDGED]]) for source, target in texts)
        bleu.append([f"{judge(translator, text).result.bleu:.2f}" for text in some])
    valid, watched = (min(JUDGED, len(source)) for source, _ in texts)
    rows: list[tuple[str, ...]] = [
        ("after", "loss of valid", "of what is watched", f"BLEU of {counted(valid, 'line')}", f"of {watched} watched")
    ]
    for number, each in enumerate(validations_so_far(run)):
        found = bleu[0] if not number else ["", ""]
        rows.append((f"step {each.step:,}", f"{each.valid_loss:.3f}", f"{each.watch_loss or 0:.3f}", *found))
    if made := load_average(run, "best"):
        name = f"the end: {made.start_share or 0:.0%} of the start"
        rows.append((name, f"{made.valid_loss:.3f}", f"{made.watch_loss or 0:.3f}", *bleu[1]))
    return rows


def joined(one: EncodedSplit, other: EncodedSplit) -> EncodedSplit:
    """Returns a split in memory with the sentences of both, those of `one` first."""
    return EncodedSplit(
        *(
            Side(np.concatenate((a.ids, b.ids)), np.concatenate((a.offsets, a.offsets[-1] + b.offsets[1:])))
            for a, b in ((one.source, other.source), (one.target, other.target))
        )
    )


def drawn(rows: Rows, size: int, *, seed: int, epoch: int) -> Rows:
    """Returns so many of some rows, each as often as the others, or once more; another epoch begins with others.

    For example, 5 of the rows 7 and 8 are 8 7 8 7 8, or 7 8 7 8 7.
    """
    return np.resize(np.random.default_rng([seed, epoch]).permutation(rows), size)


def best_mixture(
    run: Run, taught: Transformer, losses_of: Callable[[Transformer], tuple[Losses, Losses | None]], world: World
) -> tuple[Transformer, float]:
    """Returns the mean of what was taught and of the start that fits both texts best, and the share of the start.

    The share is the one that training.start_share names, or the smallest of the best of SHARES: it has the lowest sum
    of both losses. losses_of: returns the losses of the validation text and of what is watched. Raises CheckpointError
    if the weights of the start are gone. The model is on the CPU.
    """

    def mixture(share: float) -> Transformer:
        with world.all_or_none():
            return mixed(taught, load_validated(run, START), share)

    given, sums = run.config.training.start_share, dict[float, float]()
    for share in SHARES if given is None else (given,):
        valid, watched = losses_of(mixture(share))
        assert watched, "some text is watched"
        log.info("%3.0f%% of the start's weights  valid %.3f  watched %.3f", 100 * share, valid.loss, watched.loss)
        sums[share] = valid.loss + watched.loss
    chosen = min(sums, key=lambda share: sums[share])
    if given is None and chosen == 1.0:
        log.info("nothing taught was better: the start stays")
    return mixture(chosen), chosen


@torch.no_grad()
def mixed(taught: Transformer, start: Transformer, share: float) -> Transformer:
    """Returns `start`, of whose weights this share stays; the rest comes from `taught` (Wortsman et al. 2022)."""
    for mine, others in zip(start.parameters(), taught.parameters(), strict=True):
        mine.copy_(others.lerp(mine, share))
    return start
