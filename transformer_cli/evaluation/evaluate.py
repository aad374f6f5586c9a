"""Loss, perplexity, BLEU and chrF of a run. The one owner of sacreBLEU.

References are scored as they were written: they never pass through the vocabulary.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer_cli.compute.devices import choose_device
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.batching import Rows, collate, interleaved, rows_within
from transformer_cli.data.dataset import Dataset, EncodedSplit, Side, find_dataset
from transformer_cli.data.lines import out_of_step, read_lines
from transformer_cli.data.words import Tokenizer
from transformer_cli.errors import DataError
from transformer_cli.model.loss import sum_by_row, token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.run import Run, find_run
from transformer_cli.translator import Options, Translation, Translator

log = logging.getLogger(__name__)

TUTORIAL_BATCH = 128  # the mean of batch means depends on the batches: these are the tutorials'
LOSS_POSITIONS = 2048  # padded positions whose losses are computed together
CHARACTER_LANGUAGES = {"zh": "zh", "ja": "char", "ko": "char"}  # sacreBLEU's tokeniser where words have no spaces


@dataclass(frozen=True)
class Losses:
    """Of a whole split, in nats."""

    tokens: int
    """target tokens, <eos> included"""
    loss: float
    """mean over target tokens"""
    loss_batch_mean: float
    """mean over batches of 128, sorted as torchtext sorts, of the means over their tokens: the tutorials' figure"""

    @property
    def ppl(self) -> float:
        """Perplexity: exp of the loss per token."""
        return perplexity(self.loss)


@dataclass(frozen=True)
class Result:
    """How a run did on one split. Its fields are the keys of `tfm evaluate --json`; scores go from 0 to 100."""

    split: str
    sentences: int
    tokens: int
    """target tokens, <eos> included"""
    loss: float
    """mean over target tokens, in nats"""
    loss_batch_mean: float
    """as in Losses"""
    ppl: float
    """exp(loss)"""
    bleu: float
    """of plain text against raw references"""
    bleu_signature: str
    bleu_tokens: float
    """of the decoder's own tokens, `<unk>` kept, against tokenised references: what tutorials report"""
    chrf: float
    """of plain text against raw references"""
    chrf_signature: str
    seconds: float


@dataclass(frozen=True)
class Judged:
    """A result, and the translations that it is of."""

    result: Result
    translations: list[Translation]


def perplexity(loss: float) -> float:
    """exp(loss), of 700 nats at most: a float, and JSON, hold no more."""
    return math.exp(min(loss, 700.0))


def evaluate(
    run: str | Path | None = None,
    *,
    splits: Sequence[str] = (),
    files: tuple[Path, Path] | None = None,
    device: str = "auto",
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
) -> Iterator[Judged]:
    """Judge a run's best checkpoint on splits of its dataset (none named: every test set), or on two files.

    run: a name under runs_dir, a folder, or None for the newest. files: sentences and their reference translations.
    Yields a result as each split is done. Raises CheckpointError or DataError, when the first is asked for.
    """
    opened = Run.open(find_run(run, runs_dir))
    texts: dict[str, tuple[list[str], list[str]]]
    if files is not None:
        texts = {files[0].name: _read_text(*files)}
    else:
        dataset = Dataset.open(find_dataset(opened.config.data, data_dir))
        names = list(dict.fromkeys(splits)) or dataset.test_splits
        if not names:
            raise DataError(f"{dataset.folder} has no test set; name a split, such as --split valid")
        texts = {name: (dataset.text(name, "source"), dataset.text(name, "target")) for name in names}
    translator = Translator(opened, choose_device(device))
    for name, (sources, references) in texts.items():
        yield judge(translator, name, sources, references)
        if opened.config.data.corpus == "captions" and files is None:
            _say_baseline(opened.config.data, name, sources, references)


def judge(translator: Translator, name: str, sources: Sequence[str], references: Sequence[str]) -> Judged:
    """Translate `sources` and score the result against raw `references`. Raises DataError if all are too long."""
    started = time.monotonic()
    data = translator.run.config.data
    split = _encode(translator.run, sources, references)
    rows = rows_within(split, translator.run.config.model.max_length)
    if len(rows) < len(split):
        log.warning(
            "%s: %d sentences are too long: left out of the loss, cut to be translated", name, len(split) - len(rows)
        )
    if not len(rows):
        raise DataError(
            f"{name}: every sentence is longer than the model's {translator.run.config.model.max_length} positions"
        )
    losses = corpus_losses(translator.model, split, rows)
    translations = translator.translations(sources, Options(truncate=True))
    result = Result(
        split=name,
        sentences=len(sources),
        tokens=losses.tokens,
        loss=losses.loss,
        loss_batch_mean=losses.loss_batch_mean,
        ppl=losses.ppl,
        **_scores(translations, references, data),
        seconds=round(time.monotonic() - started, 3),
    )
    return Judged(result, translations)


def corpus_losses(model: Transformer, split: EncodedSplit, rows: Rows, world: World = ALONE) -> Losses:
    """The losses of the named sentences, without dropout or label smoothing, in float32.

    Several processes that hold the same model share the work, and all return the same.
    """
    device = next(model.parameters()).device
    source_lengths, target_lengths = split.source.lengths, split.target.lengths
    nll, tokens = np.zeros(len(split)), np.zeros(len(split), dtype=np.int64)
    model.eval()
    with torch.inference_mode():
        chunks = _chunks_by_length(rows, np.maximum(source_lengths, target_lengths) + 2)
        for chunk in chunks[world.rank :: world.size]:
            batch = collate(split, chunk)
            losses = token_losses(model, batch.source.to(device), batch.target.to(device))
            sums, counts = sum_by_row(losses.nll.cpu(), batch.target, model.pad_id)
            nll[chunk], tokens[chunk] = sums.numpy(), counts.numpy()
    nll, tokens = world.total(nll), world.total(tokens)  # each row is 0 in all processes but one
    order = sorted(rows, key=lambda row: interleaved(int(source_lengths[row]), int(target_lengths[row])))
    batches = [order[start : start + TUTORIAL_BATCH] for start in range(0, len(order), TUTORIAL_BATCH)]
    means = [nll[batch].sum() / tokens[batch].sum() for batch in batches]
    return Losses(int(tokens[rows].sum()), float(nll[rows].sum() / tokens[rows].sum()), float(np.mean(means)))


def _read_text(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Lines as they are: an empty one is translated by an empty one."""
    sources, references = list(read_lines(source)), list(read_lines(reference))
    if not sources:
        raise DataError(f"{source}: empty; name a file with a sentence a line")
    if len(sources) != len(references):
        raise out_of_step(source, target=reference)
    return sources, references


def _scores(translations: Sequence[Translation], references: Sequence[str], data: DataConfig) -> dict[str, Any]:
    """sacreBLEU's part of a Result; lower-cased where the model is."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu = BLEU(lowercase=data.lowercase, tokenize=CHARACTER_LANGUAGES.get(data.target, "13a"))
    chrf = CHRF(lowercase=data.lowercase)
    texts = [translation.text for translation in translations]
    own_tokens = [" ".join(translation.tokens) for translation in translations]
    tokenizer = Tokenizer(data.target, lowercase=data.lowercase)
    tokenised = [" ".join(tokenizer.tokens(reference)) for reference in references]
    return {
        "bleu": bleu.corpus_score(texts, [references]).score,
        "bleu_signature": str(bleu.get_signature()),
        "bleu_tokens": BLEU(tokenize="none", force=True).corpus_score(own_tokens, [tokenised]).score,
        "chrf": chrf.corpus_score(texts, [references]).score,
        "chrf_signature": str(chrf.get_signature()),
    }


def _say_baseline(data: DataConfig, name: str, sources: Sequence[str], references: Sequence[str]) -> None:
    """What a dictionary alone reaches on the embedded corpus, so that the model's score means something."""
    from sacrebleu.metrics.bleu import BLEU

    from transformer_cli.data.captions import word_by_word

    guesses = [word_by_word(sentence, source=data.source) for sentence in sources]
    bleu = BLEU(lowercase=data.lowercase).corpus_score(guesses, [references]).score
    log.info("%s: word by word with a dictionary, the baseline: BLEU %.2f", name, bleu)


def _encode(run: Run, sources: Sequence[str], references: Sequence[str]) -> EncodedSplit:
    sides = []
    for vocabulary, language, lines in (
        (run.source_vocabulary, run.config.data.source, sources),
        (run.target_vocabulary, run.config.data.target, references),
    ):
        tokenizer = Tokenizer(language, lowercase=run.config.data.lowercase)
        sentences = [vocabulary.encode(tokenizer.tokens(line)) for line in lines]
        ids = np.array([index for sentence in sentences for index in sentence], dtype=np.int32)
        sides.append(Side(ids, np.cumsum([0, *map(len, sentences)])))
    return EncodedSplit(*sides)


def _chunks_by_length(rows: Rows, lengths: Rows) -> list[Rows]:
    """Rows of similar length together, about LOSS_POSITIONS padded positions a chunk."""
    order = rows[np.argsort(lengths[rows], kind="stable")]
    chunks, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > LOSS_POSITIONS:
            chunks.append(order[start:end])
            start = end
    return chunks
