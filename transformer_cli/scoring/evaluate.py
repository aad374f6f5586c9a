"""Evaluates a run on splits of its dataset or on files: loss, perplexity, BLEU, chrF, and log-probabilities of lines.

BLEU and chrF use the raw text of the references, not their tokens.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import DataConfig, DecodingConfig
from transformer_cli.data.dataset import (
    MAX_BYTES_PER_LINE,
    MIN_WARNED_OVERLAP,
    Dataset,
    EncodedSplit,
    Rows,
    Side,
    find_dataset,
    read_manifest,
)
from transformer_cli.errors import ArgumentError, ConfigError, DataError, FileError
from transformer_cli.pipeline import Translation
from transformer_cli.runs.provenance import append_result, sha256_of_lines
from transformer_cli.scoring.losses import (
    Losses,
    SentenceLosses,
    combine_losses,
    perplexity,
    perplexity_text,
    sentence_losses,
)
from transformer_cli.scoring.metrics import (
    METRICS,
    BleuScore,
    Interval,
    TextScore,
    bleu_of_tokens,
    nonblank_rows,
    score_text,
    warn_about_text,
)
from transformer_cli.search.protocols import TargetScorer
from transformer_cli.system.files import open_regular
from transformer_cli.system.terminal import pluralize, show_status
from transformer_cli.text.codec import SIDES
from transformer_cli.text.languages import target_token_end
from transformer_cli.text.lines import decoded_lines, line_count_error, read_lines, refuse_lone_surrogates, zip_lines
from transformer_cli.text.vocabulary import N_SOS_EOS, UNK
from transformer_cli.text.words import join_subwords, tokenizer_or_fallback
from transformer_cli.translate import Translator

log = logging.getLogger(__name__)

CHUNK_LINES = 1000  # lines that `score_pairs` holds in memory


@dataclass(frozen=True, kw_only=True)
class Result:
    """The scores of a run on a text, BLEU and chrF from 0 to 100. Its fields are the keys of `tfm evaluate --json`."""

    split: str
    sentences: int
    tokens: int
    """target tokens, <eos> included"""
    loss: float
    """mean over target tokens, in nats"""
    loss_batch_mean: float
    """see Losses"""
    ppl: float
    """exp(loss)"""
    bleu: float
    """of plain text against raw references, like chrf"""
    bleu_interval: Interval | None
    """sacreBLEU's bootstrap interval; None for more than 10,000 sentences"""
    bleu_signature: str
    bleu_tokens: float
    """BLEU of tokens against tokenised references, as tutorials report it: the decoder's own words (with `<unk>`), or
    spaCy's tokens if the decoder writes subwords"""
    chrf: float
    chrf_interval: Interval | None
    chrf_signature: str
    seconds: float
    brevity_penalty: float
    """this and the next two: see BleuScore"""
    length_ratio: float
    precisions: list[float]
    extra_metrics: dict[str, TextScore] = field(default_factory=dict)
    """chrf++ and ter, if requested"""
    terms: int = 0
    """the number of glossary terms in the sources"""
    terms_kept: int = 0
    """the number of these terms whose translation is in the output"""


@dataclass(frozen=True)
class Evaluation:
    """A result and the translations that were scored."""

    result: Result
    translations: list[Translation]


@dataclass(frozen=True)
class ParallelText:
    """Sentences and their reference translations, line by line."""

    name: str
    sources: Sequence[str]
    """empty if translations come from files"""
    references: Sequence[Sequence[str]]
    """one or several references; each has one line per sentence"""

    def joined(self, joiner: str | None) -> "ParallelText":
        """Returns the text with references whose parts of words are joined, for scores; see `data.joiner`."""
        return replace(self, references=[[join_subwords(line, joiner) for line in each] for each in self.references])


@dataclass(frozen=True)
class LineScore:
    """A pair of lines and its score. Its fields are the keys of `tfm score --json`."""

    source: str
    target: str
    log_prob: float
    """of the target's tokens and <eos>, given the source, in nats; copied symbols have no tokens"""
    tokens: int
    """the target's tokens, <eos> included; 0 if both lines are blank"""
    ppl: float
    """exp(-log_prob / tokens)"""


ResultSink = Callable[[Mapping[str, Any], ParallelText], None]
"""Saves the result on a text."""


def evaluate(
    translator: Translator,
    texts: Iterable[ParallelText],
    *,
    lowercase: bool = False,
    metrics: Iterable[str] = (),
    save_result: bool = True,
    files: Iterable[str | Path] = (),
) -> list[Evaluation]:
    """Evaluate a translator on each text; see `evaluate_text`. Raises DataError.

    save_result: append each result to the run's evaluations.jsonl, if it can be written. files: the paths of the
    texts' files, which are saved with the result.
    """
    found, save = [], result_sink(translator, files)
    for text in texts:
        found.append(evaluate_text(translator, text, lowercase=lowercase, metrics=metrics))
        if save_result:
            save(asdict(found[-1].result), text)
    return found


def score_files(translator: Translator, source: Path, target: Path) -> Iterator[LineScore]:
    """Yield the score of each pair of lines of two files; see `score_pairs`.

    Raises DataError also if the files have different numbers of lines.
    """
    pairs = (pair[:2] for pair in zip_lines(source, target, read_lines))
    return score_pairs(translator, pairs, names=(str(source), str(target)))


def score_pairs(
    translator: Translator, pairs: Iterable[Sequence[str]], *, names: tuple[str, str] = ("source", "target")
) -> Iterator[LineScore]:
    """Yield the score of each pair of texts, then log the perplexity of all; see `api.score_pairs`.

    Raises ArgumentError and DataError.
    """
    codecs, limit = translator.run.codecs, translator.max_length
    pairs = iter(pairs)
    n_lines = n_tokens = n_words = n_unknown = 0
    total = 0.0
    while chunk := list(islice(pairs, CHUNK_LINES)):
        sides = []
        for number, pair in enumerate(chunk, start=n_lines):
            if isinstance(pair, str) or not isinstance(pair, Sized) or len(pair) != 2:
                raise ArgumentError(f"score_pairs: pairs, item {number}: {pair!r} is not a pair of texts")
        for name, codec, texts in zip(names, (codecs.source, codecs.target), zip(*chunk, strict=True), strict=True):
            for number, text in enumerate(texts, start=n_lines + 1):
                refuse_lone_surrogates(text, f"{name}: line {number}: ")
            encoded = [translator.pipeline.encode(text, codec) for text in texts]
            for number, line in enumerate(encoded, start=n_lines + 1):
                if limit is not None and len(line) + N_SOS_EOS > limit:
                    raise DataError(
                        f"{name}: line {number}: {len(line)} tokens, but the model takes at most {limit - N_SOS_EOS} "
                        f"(its {limit} positions minus <sos> and <eos>); remove it, since the score of "
                        "a truncated line would be wrong"
                    )
            sides.append([line.ids for line in encoded])
        split = EncodedSplit(*map(Side.of, sides))
        rows = np.flatnonzero(is_scored(split))
        losses = translator_losses(translator, split, rows)
        log_probs, tokens = np.zeros(len(chunk)), np.zeros(len(chunk), dtype=np.int64)
        log_probs[rows], tokens[rows] = -losses.nll, losses.tokens
        for pair, log_prob, count in zip(chunk, log_probs.tolist(), tokens.tolist(), strict=True):
            total += log_prob
            yield LineScore(pair[0], pair[1], log_prob, count, perplexity(-log_prob / max(count, 1)))
        n_lines += len(chunk)
        n_tokens += int(tokens.sum())
        n_words += len(split.target.ids)
        n_unknown += sum(ids.count(UNK) for ids in sides[1])
    if n_unknown:
        log.warning("%s: %d of %d tokens are unknown and are scored as <unk>", names[1], n_unknown, n_words)
    if n_tokens:
        counts = f"{pluralize(n_lines, 'line')}, {pluralize(n_tokens, 'token')}"
        log.info("%s: %s, perplexity %s", names[1], counts, perplexity_text(perplexity(-total / n_tokens)))


def result_sink(translator: Translator, files: Iterable[str | Path] = ()) -> ResultSink:
    """Returns a function that appends a result and its conditions to the run's evaluations.jsonl.

    It keeps no reference to the models.
    """
    run, device = translator.run, translator.engine.device
    conditions = {
        "checkpoint": translator.checkpoints[0],
        "others": [str(each.folder) for each in translator.runs[1:]],
        "decoding": translator.settings.model_dump(mode="json", include=set(DecodingConfig.model_fields)),
        "precision": translator.engine.precision(translator.settings),
        "files": [*map(str, files)] or None,
    }

    def save(result: Mapping[str, Any], text: ParallelText) -> None:
        names = ("source", "target", *(f"target {number}" for number in range(2, len(text.references) + 1)))
        sums = dict(zip(names, map(sha256_of_lines, (text.sources, *text.references)), strict=True))
        append_result(run.folder, {**conditions, **result}, device=device, shards=run.config.training.shards, sums=sums)

    return save


def warn_of_training_text(data: DataConfig, text: ParallelText, data_dir: Path) -> None:
    """Warn of lines, and of references from 1 % on, that are in the run's training text, if its dataset can be read."""
    try:
        folder = find_dataset(data, data_dir, any_target=True)
        max_bytes = read_manifest(folder)["splits"]["train"]["sentences"] * MAX_BYTES_PER_LINE
        found = {
            "line": _count_seen(text.sources, folder / "train.source.txt", max_bytes),
            "reference": _count_seen(chain(*text.references), folder / "train.target.txt", max_bytes),
        }
    except (DataError, FileError):
        return
    n_seen, n_references = found["reference"]
    if n_seen < MIN_WARNED_OVERLAP * n_references:
        del found["reference"]
    if seen := [f"{n_seen:,} of {pluralize(n_lines, what)}" for what, (n_seen, n_lines) in found.items() if n_seen]:
        what = "a model can memorise them, so these scores say less about new text"
        log.warning("%s: also in the training text: %s; %s", text.name, ", ".join(seen), what)


def _count_seen(lines: Iterable[str], trained: Path, max_bytes: int) -> tuple[int, int]:
    """Returns how many lines are in a file, ignoring case, spaces and target tokens, and how many are not blank.

    Raises FileError if it is not a file of at most `max_bytes`, DataError.
    """

    def key(line: str) -> str:
        return "".join(line[target_token_end(line) :].split()).casefold()

    keys = [key(line) for line in lines if line.strip()]
    with open_regular(trained) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise FileError(f"{trained}: larger than {max_bytes:,} bytes, so it is not the expected file")
        seen = {*keys}.intersection(map(key, decoded_lines(file, str(trained))))
    return sum(map(seen.__contains__, keys)), len(keys)


def evaluate_text(
    translator: Translator, text: ParallelText, *, lowercase: bool = False, metrics: Iterable[str] = ()
) -> Evaluation:
    """Translate a text and score the translations against its raw references.

    lowercase: ignore case. metrics: from EXTRA_METRICS. Raises DataError if every line is blank or too long.
    """
    start_time = time.monotonic()
    pipeline, codecs, data = translator.pipeline, translator.run.codecs, translator.run.config.data
    if lowercase:
        data = data.model_copy(update={"lowercase": True})
    sources = [pipeline.encode(line, codecs.source) for line in text.sources]
    references = [pipeline.encode(line, codecs.target) for line in text.references[0]]
    split = EncodedSplit(Side.of([line.ids for line in sources]), Side.of([line.ids for line in references]))
    translations = translator.with_options(on_too_long="truncate").translate_encoded(text.sources, sources)
    losses = _losses(translator, text.name, split)
    scored = nonblank_rows(text.sources, text.references[0])
    texts = [translations[row].text for row in scored]
    scored_references = [[lines[row] for row in scored] for lines in text.joined(data.joiner).references]
    if data.tokens == "words":
        tokens = [[translations[row].tokens for row in scored], [references[row].tokens for row in scored]]
        tokens += [[pipeline.encode(line, codecs.target).tokens for line in lines] for lines in scored_references[1:]]
    else:
        tokenizer = tokenizer_or_fallback(data.output_language, lowercase=data.lowercased)
        tokens = [[tokenizer.tokens(line) for line in lines] for lines in (texts, *scored_references)]
    warn_about_text(texts, scored_references[0], text.name, data.output_language, text.sources)
    extra_metrics = score_text(
        texts, *scored_references, language=data.output_language, lowercase=data.lowercased, extra_metrics=metrics
    )
    bleu, chrf = (extra_metrics.pop(name) for name in METRICS)
    assert isinstance(bleu, BleuScore)
    result = Result(
        split=text.name,
        sentences=len(scored),
        **vars(losses),
        ppl=losses.ppl,
        bleu=bleu.score,
        bleu_interval=bleu.interval,
        bleu_signature=bleu.signature,
        bleu_tokens=bleu_of_tokens(*tokens, lowercase=data.lowercased),
        chrf=chrf.score,
        chrf_interval=chrf.interval,
        chrf_signature=chrf.signature,
        seconds=round(time.monotonic() - start_time, 3),
        brevity_penalty=bleu.brevity_penalty,
        length_ratio=bleu.length_ratio,
        precisions=bleu.precisions,
        extra_metrics=extra_metrics,
        terms=sum(len(each.terms) for each in translations),
        terms_kept=sum(place is not None for each in translations for _, place in each.terms),
    )
    return Evaluation(result, translations)


def _losses(translator: Translator, name: str, split: EncodedSplit) -> Losses:
    """Returns the losses of the sentences that are not blank and fit the model; warns of those that are too long."""
    rows, limit = split.rows_within(translator.max_length), translator.max_length
    for side, noun, effect in (
        (split.source, "sentence", "excluded from the loss; translated from the truncated source"),
        (split.target, "reference", "excluded from the loss"),
    ):
        if n_long := limit and int((side.lengths + N_SOS_EOS > limit).sum()):
            log.warning("%s: %s too long: %s", name, pluralize(n_long, noun), effect)
    rows = rows[is_scored(split)[rows]]
    if not len(rows):
        raise DataError(f"{name}: every line is blank, or too long for the model; name files with sentences")
    show_status(f"{name}: the loss of {pluralize(len(rows), 'sentence')}")
    return combine_losses(translator_losses(translator, split, rows), split, rows)


def select_texts(
    data: DataConfig,
    *,
    splits: Sequence[str] = (),
    files: Sequence[str | Path] | None = None,
    lists: Sequence[Sequence[str]] | None = None,
    data_dir: Path = Path("data"),
) -> list[ParallelText]:
    """Returns the texts to evaluate a run on: splits of its dataset, or the text of files or lists.

    With none of these, every test set. Warns of lines and references of files and lists that are in the run's training
    text. Raises ConfigError, DataError.
    """
    if [files is None, lists is None, not splits].count(False) > 1:
        raise ConfigError("files, lists and splits cannot be combined; give one of them")
    if files is None and lists is None:
        return read_splits(data, splits, data_dir)
    if files is not None and not len(files):
        raise DataError("files: empty; name a file of sentences and one of references, or omit it")
    text = text_from_lists(lists) if lists is not None else read_text(*map(Path, files or ()))
    warn_of_training_text(data, text, data_dir)
    return [text]


def read_splits(data: DataConfig, names: Sequence[str], data_dir: Path) -> list[ParallelText]:
    """Read splits of the dataset with these settings (no names: every test set), swapped with `to: source`.

    Raises DataError.
    """
    dataset = Dataset.open(find_dataset(data, data_dir, any_target=True))
    names = list(dict.fromkeys(names)) or dataset.test_splits
    if not names:
        raise DataError(f"{dataset.folder} has no test set; name another split, such as valid")
    is_swapped = data.both_directions and data.to == data.source
    source, target = SIDES[::-1] if is_swapped else SIDES
    into = f" into {data.to}" if is_swapped else ""
    return [ParallelText(f"{name}{into}", dataset.text(name, source), [dataset.text(name, target)]) for name in names]


def read_text(source: Path | None, *references: Path) -> ParallelText:
    """Read a file of sentences (None: no sentences) and files of references. Raises DataError."""
    first, *others = (source, *references) if source else references
    lines, *more = (list(read_lines(path)) for path in (first, *others))
    if source and not references:
        raise DataError(f"{source}: sentences need references; name a file of references, too")
    if not lines:
        raise DataError(f"{first}: empty; name a file with one sentence per line")
    for path, each in zip(others, more, strict=True):
        if len(lines) != len(each):
            raise line_count_error(first, target=path)
    return ParallelText(first.name, lines, more) if source else ParallelText(first.name, [], [lines, *more])


def text_from_lists(lists: Sequence[Sequence[str]]) -> ParallelText:
    """Returns the text of a list of sentences and lists of references.

    Raises DataError if lengths differ, or for a lone surrogate.
    """
    lists = [[*each] for each in lists]
    sources, *references = lists or [[]]
    if not references or not len(sources) or {len(each) for each in references} != {len(sources)}:
        lengths = ", ".join(f"{len(each):,}" for each in (sources, *references))
        raise DataError(f"lists: {lengths} lines; give a list of sentences, then equally long lists of references")
    for place, texts in enumerate(lists):
        for row, text in enumerate(texts):
            refuse_lone_surrogates(text, f"lists, item {place}, item {row}: ")
    return ParallelText("lists", sources, references)


def is_scored(split: EncodedSplit) -> NDArray[np.bool_]:
    """Returns which pairs are scored, bool (sentences,): all but pairs of two blank lines."""
    return (split.source.lengths > 0) | (split.target.lengths > 0)


def translator_losses(translator: Translator, split: EncodedSplit, rows: Rows) -> SentenceLosses:
    """Returns the losses of the sentences in `rows`, in that order; see `sentence_losses`. Raises MemoryShortage.

    The losses of an exported model are those of its stored weights, for example in int8.
    """
    engine = translator.engine
    if not isinstance(engine, TargetScorer):
        first, *others = engine.models
        return sentence_losses(first, split, rows, others=others)
    sources, targets = ([side[row].tolist() for row in rows] for side in (split.source, split.target))
    found = engine.log_probs(sources, targets)
    return SentenceLosses(
        np.array([-sum(each) for each in found], dtype=np.float64),
        np.array([len(each) for each in found], dtype=np.int64),
    )
