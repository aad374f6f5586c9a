"""Chooses a config for new text files; a base config or the run to fine-tune provides the other settings."""

import logging
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from transformer_cli.adapters.corpora.corpora import held_out_shares
from transformer_cli.adapters.corpora.formats import pair_files, read_texts, require_files
from transformer_cli.config.comments import LINE_WIDTH, commented_settings, with_relative_paths
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import MAX_NAME_CHARS, Config, HeldOutConfig, Rule
from transformer_cli.errors import ConfigError
from transformer_cli.system.terminal import first_few
from transformer_cli.text.codec import SIDES
from transformer_cli.text.lines import decompressed_name
from transformer_cli.text.subwords import min_vocab_size

DEFAULT_BASE = "demo"  # the config whose model is used unless another one is named
SMALL_TEXT_PAIRS = 20_000  # from here on, the automatic number of subwords is large enough for any script
PAIRS_PER_FINETUNING = 100_000  # over all epochs; their number stays between 3 and 30
BEAM_COMMENT = "hypotheses in beam search; 5 take 2.7 × the time of 1 (greedy search), for 1 BLEU"

log = logging.getLogger(__name__)


def config_for_files(
    files: Sequence[Path],
    *,
    options: Mapping[str, tuple[Any, str]],
    base: str | None = None,
    overrides: Sequence[str] = (),
    inherited: Mapping[str, Any] | None = None,
    held_out: HeldOutConfig | None = None,
) -> tuple[Config, Path, Callable[[Mapping[str, Any]], Config] | None]:
    """Returns the config for training on some files, and its path, NAME.yaml in the current folder.

    If NAME.yaml exists, only its list of files is replaced; so the held-out shares stay the same. If it does not, and
    neither a base nor a run provides the settings of training, also returns a function that returns the config with
    further settings (dotted key → value), for those that follow from the dataset.

    options, inherited: see `load_config`; inherited are the settings of a run that is fine-tuned. base: the config that
    provides the other settings. held_out: shares of the run to fine-tune. Raises ConfigError, and DataError
    if the files cannot be read.
    """
    require_files(("FILE", path) for path in files)
    name, option = options.get("name", (_name_of(files[0]), f"the name of {files[0].name}"))
    if not name:
        raise ConfigError(f"--name is missing: the file name {files[0].name} has no letter from a to z; choose one")
    path = Path(f"{name}.yaml")
    is_new = not path.exists()
    if not is_new and base is not None:
        raise ConfigError(f"{path} exists already: leave --config out to reuse it, or give another --name")
    start = (base or (None if inherited else DEFAULT_BASE)) if is_new else path
    before = load_config(start).data
    given: dict[str, tuple[Any, str]] = {"name": (name, option), "data.corpus": ("files", "FILE"), **options}
    sides = [given.get(f"data.{side}", (None,))[0] for side in SIDES]
    if is_new and None in sides and not inherited:
        side = SIDES[sides.index(None)]
        raise ConfigError(f"--{side} is missing: give the language of the {side}, such as --{side} de")
    languages = [named or kept for named, kept in zip(sides, (before.source, before.target), strict=True)]
    if not is_new and [before.corpus, *languages] != ["files", before.source, before.target]:
        raise ConfigError(f"{path} exists already, for other text; give another --name")

    def load(chosen: Mapping[str, Any]) -> Config:
        options = {**given, **{key: (value, "FILE") for key, value in chosen.items()}}
        return load_config(start, overrides, options=options, inherited=inherited)

    chosen: dict[str, Any] = {"data.files.train": [*map(str, files)]}
    if is_new:
        chosen["data.fingerprint"] = None  # a run's config as base has that of other text
        chosen["data.clean"] = list(get_args(Rule))
        has_valid = "valid" in (before.files or {}) or any(each.startswith("data.files.valid") for each in overrides)
        chosen["data.held_out"] = {} if has_valid else {"valid": 0.01}  # replaced below
        if not (inherited or base):
            chosen |= {"model.dropout": 0.1, "decoding.beam_size": 5}
    texts = pair_files(files, load(chosen).data)
    chosen["data.files.train"] = [
        str(text) if isinstance(text, Path) else text.model_dump(mode="json") for text in texts
    ]
    config = load(chosen)
    if not is_new:
        if dropped := {file for _, file in before.texts} - {file for _, file in config.data.texts}:
            log.warning("%s: no longer training text: %s", path, first_few([*map(str, sorted(dropped))]))
        return config, path, None
    n_pairs = sum(1 for _ in read_texts(texts, config.data))
    chosen["data.held_out"] = held_out_shares(n_pairs, config.data, held_out).model_dump()
    if inherited:
        chosen["training.epochs"] = max(3, min(30, PAIRS_PER_FINETUNING // max(1, n_pairs)))
    elif base is None:
        size = vocab_size_for(n_pairs, at_most=config.data.subwords.vocab_size)
        if n_pairs < SMALL_TEXT_PAIRS:  # a text of many characters, such as Japanese, needs more
            smallest = min_vocab_size(f"{one} {other}" for one, other, _ in read_texts(texts, config.data))
            size = size if size > smallest else smallest + smallest // 5
        chosen["data.subwords.vocab_size"] = size
    further = None if inherited or base else lambda settings: load({**chosen, **settings})
    return load(chosen), path, further


def vocab_size_for(n_pairs: int, at_most: int) -> int:
    """Returns the number of subwords that gave the best translations in docs/records/little-text.md."""
    return max(500, min(at_most, max(n_pairs // 2, min(n_pairs, 2_000))))


def commented_yaml(config: Config, path: Path, reason: str = "") -> str:
    """Returns a config as YAML with a comment on each setting, to be written to a path.

    reason: why a new config has these settings of training, in words.
    """
    title = f"The settings of {config.run_name}, as `tfm prepare` chose them; change what you like"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if reason:
        head = "".join(f"# {line}\n" for line in (f"{title}.", *textwrap.wrap(f"{reason}.", LINE_WIDTH - 2)))
        old = f"{head}decoding:\n  beam_size: 5 # {BEAM_COMMENT}\n"
    return commented_settings(with_relative_paths(config, path.resolve().parent), text=old, title=title)


def _name_of(path: Path) -> str:
    """Returns the run name for a file: memory for memory.tmx.gz, europarl for europarl.de."""
    stem = Path(decompressed_name(path).removesuffix(".txt")).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:MAX_NAME_CHARS].strip("._-")
