"""An exported model, run by CTranslate2: ids in, hypotheses and log-probabilities out. The owner of that library.

CTranslate2 searches by itself; what differs from our searches is put right here. Its limit holds for a whole batch, so
a translation that went beyond its own is cut there if the search was greedy, and searched for once more by a beam.
What is forbidden loses its share of the probability there, and what is forced has none; so <pad> and <sos> are
forbidden only to the few sentences in which they were written, and wherever anything was forced, forbidden or cut,
log-probabilities are computed anew. Knows no words; it is told their names.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from transformer_cli.compute.memory import room_for
from transformer_cli.data.vocabulary import PAD, SOS
from transformer_cli.decoding.decoder import MOST_ROWS
from transformer_cli.decoding.engine import Batch, longest_first
from transformer_cli.decoding.found import Found, n_best
from transformer_cli.decoding.settings import SearchSettings, refuse_long_prefix
from transformer_cli.errors import CheckpointError, ConfigError, DeviceError

NEVER = frozenset({PAD, SOS})
IMPOSSIBLE = -1e9  # log-probabilities below this are those of tokens that may not be written

Ids = Sequence[int]
FoundRows = dict[int, list[Found]]
"""Sentences by their rows, and what was found for each"""


def import_ctranslate2() -> ModuleType:
    """Returns the library. Raises ConfigError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError(
            "CTranslate2, which exported models need, is not installed; run `pip install 'ctranslate2>=4.5'`"
        ) from None
    module: ModuleType = ctranslate2
    return module


class CTranslate2Engine:
    """An `engine.Engine` for a folder in CTranslate2's format."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        *,
        positions: int,
        source: Sequence[str],
        target: Sequence[str],
        batches_at_a_time: int | None = None,
    ) -> None:
        """positions: the most that a sentence may take. source, target: the tokens, in the order of their ids.

        batches_at_a_time: as for `engine.TransformerEngine`. Raises CheckpointError for a model that CTranslate2 cannot
        read, ConfigError if the library is missing, DeviceError.
        """
        self._library = import_ctranslate2()
        self._folder = folder
        self._positions = positions
        self._source, self._target = source, target
        self._ids = {name: index for index, name in enumerate(target)}
        self._translator = self._load(device, batches_at_a_time)

    @property
    def max_length(self) -> int:
        """See `engine.Engine`."""
        return self._positions

    @property
    def computes_in(self) -> str:
        """The type in which matrices are multiplied on this machine, such as int8_float32."""
        return str(self._translator.compute_type)

    def translate(
        self,
        sentences: Sequence[Ids],
        settings: SearchSettings,
        *,
        prefix: Ids,
        keys: Sequence[int],
        keep_attention: bool,
    ) -> Iterator[Batch]:
        """See `Engine`. `Hypothesis.attention` is always None: CTranslate2 returns the mean of the heads."""
        self._refuse(settings, keep_attention)
        limits = [settings.limit(len(ids), self._positions) for ids in sentences]
        refuse_long_prefix(len(prefix), min(limits, default=len(prefix)))
        is_greedy = settings.decoding.beam_size == 1
        is_constrained = bool(prefix or settings.decoding.no_repeat_ngram)
        first = {} if is_greedy or len(sentences) == 1 else self._first_attended(sentences)
        jobs = [(max(limits[row] for row in rows), rows.tolist()) for rows in longest_first(sentences)]
        again: dict[int, list[int]] = {}  # limit → sentences that a beam took beyond it, or with what is forbidden
        rescored = list[Callable[[], FoundRows]]()  # begun while other batches are translated
        for found in self._search(sentences, settings, prefix, jobs, never=[]):
            ready, changed = FoundRows(), FoundRows()
            for row, several in found.items():
                is_cut = is_greedy and any(each.cut(limits[row]) for each in several)
                if any(each.steps > limits[row] or not NEVER.isdisjoint(each.tokens) for each in several):
                    again.setdefault(limits[row], []).append(row)
                else:
                    is_changed = (is_cut or is_constrained) and (settings.scores or not is_greedy)
                    (changed if is_changed else ready)[row] = several
            rescored.append(self._rescore(sentences, changed))
            yield _batch(ready, first, settings)
        for found in self._search(sentences, settings, prefix, list(again.items()), never=sorted(NEVER)):
            rescored.append(self._rescore(sentences, found))
        for wait in rescored:
            yield _batch(wait(), first, settings)

    def log_probs(self, sentences: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Returns the log-probability of each target's tokens, and of the <eos> after them, in nats.

        sentences, targets: ids without <sos> and <eos>, perhaps none, and no more than there are positions for. Raises
        MemoryShortage.
        """
        return self._score(sentences, targets)()

    def _score(self, sentences: Sequence[Ids], targets: Sequence[Ids]) -> Callable[[], list[list[float]]]:
        """Begin `log_probs`; the function that is returned waits for them."""
        longest = [max(pair, key=len) for pair in zip(sentences, targets, strict=True)]
        batches = [rows.tolist() for rows in longest_first(longest)]
        waiting = [
            self._translator.score_batch(
                [_names(self._source, sentences[row]) for row in rows],
                [_names(self._target, targets[row]) for row in rows],
                max_input_length=0,  # no limit: what does not fit is left out before
                asynchronous=True,
            )
            for rows in batches
        ]

        def wait() -> list[list[float]]:
            found: dict[int, list[float]] = {}
            for rows, results in zip(batches, waiting, strict=True):
                with room_for(lambda rows=rows: _too_large(len(rows), 1)):  # type: ignore[misc]
                    found.update((row, each.result().log_probs) for row, each in zip(rows, results, strict=True))
            return [found[row] for row in range(len(sentences))]

        return wait

    def _search(
        self,
        sentences: Sequence[Ids],
        settings: SearchSettings,
        prefix: Ids,
        jobs: Sequence[tuple[int, list[int]]],
        *,
        never: Sequence[int],
    ) -> Iterator[FoundRows]:
        """Translate batches side by side; yields what was found in each.

        jobs: the limit of all sentences of a batch, and their rows. never: ids that are not written.
        """
        decoding = settings.decoding
        is_scored_anew = bool(prefix or never or decoding.no_repeat_ngram)
        begin = _names(self._target, prefix)
        most = max(1, MOST_ROWS // decoding.beam_size)
        jobs = [(limit, rows[at : at + most]) for limit, rows in jobs for at in range(0, len(rows), most)]
        waiting = [
            self._translator.translate_batch(
                [_names(self._source, sentences[row]) for row in rows],
                [begin] * len(rows) if prefix else None,
                beam_size=decoding.beam_size,
                num_hypotheses=decoding.beam_size if is_scored_anew else settings.n_best,  # their order may change
                length_penalty=self._alpha(settings),
                no_repeat_ngram_size=decoding.no_repeat_ngram,
                suppress_sequences=[[self._target[index]] for index in never],
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=0,  # 1 would forbid an empty translation
                return_scores=settings.scores or decoding.beam_size > 1,
                return_attention=True,
                asynchronous=True,
            )
            for limit, rows in jobs
        ]
        for (limit, rows), results in zip(jobs, waiting, strict=True):
            with room_for(lambda rows=rows: _too_large(len(rows), decoding.beam_size)):  # type: ignore[misc]
                several = [self._read(each.result(), limit, self._alpha(settings)) for each in results]
            yield dict(zip(rows, several, strict=True))

    def _read(self, result: Any, limit: int, alpha: float) -> list[Found]:
        """Returns CTranslate2's hypotheses. limit: of its call. alpha: what its scores were divided by length to."""
        found = []
        scores = result.scores or [math.nan]  # of a greedy search, if they were not asked for
        for tokens, value, attention in zip(result.hypotheses, scores, result.attention, strict=True):
            ended = len(tokens) < limit
            log_prob = value * (len(tokens) + ended) ** alpha
            if not log_prob <= IMPOSSIBLE:  # nor NaN
                attended = [_most_attended(weights) for weights in attention]
                found.append(Found([self._ids[token] for token in tokens], attended, log_prob, ended))
        return found

    def _rescore(self, sentences: Sequence[Ids], found: FoundRows) -> Callable[[], FoundRows]:
        """Begin to compute the model's own log-probabilities, as if nothing had been forced, forbidden or cut.

        The function that is returned waits, sets `log_prob`, and returns `found`.
        """
        pairs = [(sentences[row], each) for row, several in found.items() for each in several]
        log_probs = self._score([ids for ids, _ in pairs], [each.tokens for _, each in pairs])

        def wait() -> FoundRows:
            for (_, each), values in zip(pairs, log_probs(), strict=True):
                each.log_prob = sum(values[: each.steps])
            return found

        return wait

    def _first_attended(self, sentences: Sequence[Ids]) -> dict[int, int]:
        """Returns, for each row, the position that the first token attends to.

        In a batch, CTranslate2's beam search (4.8.5, on the CPU) gives sentence b the first attention of sentence
        b // beam_size: with a beam of 4, that of 1 to 4 … 7. A greedy search's first step, which reads <sos> alone too,
        attends to the same.
        """
        one_step = {"beam_size": 1, "min_decoding_length": 1, "max_decoding_length": 1, "return_attention": True}
        texts = [_names(self._source, ids) for ids in sentences]
        results = self._translator.translate_batch(texts, max_input_length=0, max_batch_size=MOST_ROWS, **one_step)
        return {row: _most_attended(result.attention[0][0]) for row, result in enumerate(results)}

    def _alpha(self, settings: SearchSettings) -> float:
        """Greedy search has nothing to compare, so CTranslate2's score may be the log-probability itself."""
        return settings.decoding.length_penalty if settings.decoding.beam_size > 1 else 0.0

    def _refuse(self, settings: SearchSettings, keep_attention: bool) -> None:
        """Raises ConfigError for what CTranslate2 cannot do as tfm does."""
        other = "name the run that it was made from"
        if settings.decoding.sample:
            raise ConfigError(
                f"{self._folder}: an exported model draws no samples: CTranslate2's random numbers would depend on the "
                f"lines around each line; set decoding.sample to false, or {other}"
            )
        if keep_attention:
            raise ConfigError(
                f"{self._folder}: an exported model has no attention of single heads, since CTranslate2 returns their "
                f"mean; {other}"
            )

    def _load(self, device: torch.device, batches_at_a_time: int | None) -> Any:
        library = self._library
        index = device.index or 0
        if device.type not in ("cpu", "cuda") or (device.type == "cuda" and index >= library.get_cuda_device_count()):
            raise DeviceError(f"device {device}: CTranslate2, which runs {self._folder}, does not have it; choose cpu")
        threads = torch.get_num_threads()
        level = library.get_log_level()
        library.set_log_level(logging.ERROR)  # who opens the model says in what it computes
        try:
            return library.Translator(
                str(self._folder),
                device=device.type,
                device_index=index,
                inter_threads=(batches_at_a_time or threads) if device.type == "cpu" else 1,
                intra_threads=1,
                max_queued_batches=-1,  # all that wait are in memory anyway
            )
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{self._folder}: CTranslate2 {library.__version__} cannot open it: {reason}; delete the folder and "
                "export the run again"
            ) from None
        finally:
            library.set_log_level(level)
            torch.set_num_threads(threads)  # both libraries may share OpenMP, which intra_threads has changed


def _batch(found: FoundRows, first: Mapping[int, int], settings: SearchSettings) -> Batch:
    """Returns translations that are done. first: what the first tokens of a beam's rows attend to, if that is known."""
    for row in found.keys() & first.keys():
        for each in found[row]:
            each.attended[:1] = [first[row]][: len(each.tokens)]
    return list(found), [n_best(several, settings) for several in found.values()]


def _most_attended(weights: Sequence[float]) -> int:
    """Returns a position; <sos>, whose weight is left out, is position 0."""
    return 1 + weights.index(max(weights))


def _names(tokens: Sequence[str], ids: Ids) -> list[str]:
    return [tokens[index] for index in ids]


def _too_large(count: int, rows_of_each: int) -> str:
    return (
        f"{count} sentences with {rows_of_each} hypotheses each do not fit in memory; lower --beam-size, --n-best or "
        "--max-tokens, or split long sentences"
    )
