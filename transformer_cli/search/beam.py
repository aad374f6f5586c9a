"""Beam search for all sentences of a batch together. Does not know words, files or the model.

At each step every active hypothesis is continued by its most probable tokens. The continuations are ranked together
with the sentence's finished hypotheses, and the best beam_size of them are the step's candidates. A continuation is
finished if it ends in <eos> or reaches its maximum length. A finished hypothesis that is no longer a candidate stays
stored and is ranked again at the next step: the scores of the active ones may have dropped below its own.

A sentence ends when no candidate is active, or when no active one can become one of its n best. The score of an active
hypothesis can reach at most log_prob / max_tokens^α: further tokens cannot raise log_prob, and for α > 0 a longer
length brings its quotient closer to 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_cli.search.protocols import Hypothesis, Step, StepDecoder
from transformer_cli.search.rules import NEG_INF, SearchRules, score

MAX_ARGMAX_PASSES = 64  # up to this beam size, repeated argmax is faster than topk on a CPU
ROWS_PER_BLOCK = 64  # rows of logits whose intermediate results fit in a processor's cache


def beam_search(
    decoder: StepDecoder, rules: SearchRules, *, beam_size: int, n_best: int, rank_fn: "RankFn | None" = None
) -> list[list[Hypothesis]]:
    """Returns up to n_best hypotheses of each sentence, the best score first.

    Ties: the hypothesis that was finished first, then the continuation of the better hypothesis, then (on the CPU, with
    beam_size up to 64) the lower id. With beam_size 1 this is greedy search.

    rank_fn: chooses the candidates of a step (None: `top_candidates`).
    """
    active, finished = _initial_beams(rules), _FinishedHypotheses(rules, beam_size, n_best)
    for _ in range(int(rules.max_tokens.max())):
        step = decoder.decode_step(active.newest)
        finished.alignments.append(step.alignment)
        candidates = (rank_fn or top_candidates)(step, active, finished.scores[active.sentences], rules)
        is_end = is_ending(candidates, active, rules)
        finished.add(active, candidates, candidates.is_continuation & is_end)
        goes_on = candidates.is_continuation & ~is_end
        goes_on &= finished.may_improve(active.sentences, candidates.log_probs.masked_fill(~goes_on, NEG_INF))
        if not goes_on.any():
            break
        active = _advance(decoder, active, candidates, goes_on)
    return finished.best()


@dataclass(frozen=True)
class ActiveBeams:
    """The active hypotheses: the decoder's rows. Those of a sentence are neighbours, the best first."""

    sentences: Tensor
    """int64 (sentences,): the indices in the batch of those that have active hypotheses"""
    is_row: Tensor
    """bool (sentences, width), where width is the largest number of rows of a sentence

    For example, if sentence 0 has two rows and sentence 1 has one: [[True, True], [True, False]]; the decoder's rows
    are 0 1 | 2.
    """
    log_probs: Tensor
    """(rows,)"""
    newest: Tensor
    """int64 (rows,): the token that the decoder reads next"""
    tokens: Tensor
    """int64 (rows, length): all tokens, without <sos>"""
    backpointers: Tensor
    """int64 (rows, length): for each token, the decoder's row at the step that chose it"""

    def extended(self, rows: Tensor, newest: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `tokens` and `backpointers` of rows, int64 (n,), with the newest tokens, int64 (n,), appended."""
        tokens = torch.cat((self.tokens[rows], newest[:, None]), dim=1)
        return tokens, torch.cat((self.backpointers[rows], rows[:, None]), dim=1)

    def pad_by_sentence(self, values: Tensor, fill_value: float) -> Tensor:
        """Arrange values (rows, n) as (sentences, width · n), with fill_value where a sentence has no row."""
        whole = values.new_full((*self.is_row.shape, values.shape[1]), fill_value)
        whole[self.is_row.nonzero(as_tuple=True)] = values
        return whole.flatten(1)


@dataclass(frozen=True)
class Candidates:
    """The best beam_size hypotheses of each sentence after a step; all tensors are (sentences, beam_size)."""

    is_continuation: Tensor
    """bool: True for a new continuation, False for a hypothesis finished earlier or an empty place"""
    rows: Tensor
    """int64: the decoder's row that is continued"""
    tokens: Tensor
    """int64: the token that continues it"""
    log_probs: Tensor
    scores: Tensor


RankFn = Callable[[Step, ActiveBeams, Tensor, SearchRules], Candidates]
"""Chooses the candidates of a step. The tensor has the scores of finished hypotheses, (sentences, beam_size)."""


class _FinishedHypotheses:
    """The best finished hypotheses of each sentence, with their tokens and alignments."""

    def __init__(self, rules: SearchRules, beam_size: int, n_best: int) -> None:
        shape, device = (len(rules.max_tokens), beam_size), rules.max_tokens.device
        self.scores = torch.full(shape, NEG_INF, device=device)  # the best first
        self._numbers = torch.full(shape, -1, device=device)  # their indices in _done; -1: none
        self._rules = rules
        self._n_best = n_best
        self._done: list[tuple[list[int], list[int], float]] = []  # tokens, backpointers, log_prob
        self.alignments: list[Tensor] = []  # for each step: (rows,)

    def add(self, active: ActiveBeams, candidates: Candidates, is_finished: Tensor) -> None:
        """Add the candidates where is_finished, bool (sentences, beam_size); keep each sentence's best beam_size."""
        if not is_finished.any():
            return
        log_probs = candidates.log_probs[is_finished]
        tokens, backpointers = active.extended(candidates.rows[is_finished], candidates.tokens[is_finished])
        new = torch.full_like(self._numbers[active.sentences], -1)
        new[is_finished] = torch.arange(len(log_probs), device=new.device) + len(self._done)
        self._done += zip(tokens.tolist(), backpointers.tolist(), log_probs.tolist(), strict=True)
        scores = torch.cat((self.scores[active.sentences], candidates.scores.masked_fill(~is_finished, NEG_INF)), dim=1)
        numbers = torch.cat((self._numbers[active.sentences], new), dim=1)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        beam_size = self.scores.shape[1]
        self.scores[active.sentences] = scores[:, :beam_size]
        self._numbers[active.sentences] = numbers.gather(1, order[:, :beam_size])

    def may_improve(self, sentences: Tensor, log_probs: Tensor) -> Tensor:
        """Whether an active hypothesis can become one of its sentence's n best: bool (sentences, 1).

        log_probs (sentences, beam_size): of the active hypotheses.
        """
        max_tokens = self._rules.max_tokens[sentences].float()
        best = score(log_probs.amax(dim=1), max_tokens, self._rules.length_penalty)
        return (best > self.scores[sentences, self._n_best - 1])[:, None]

    def best(self) -> list[list[Hypothesis]]:
        """Returns the n best of each sentence."""
        alignments = [each.tolist() for each in self.alignments]
        numbers = self._numbers[:, : self._n_best].tolist()
        found = [[self._hypothesis(number, alignments) for number in row if number >= 0] for row in numbers]
        return [sorted(each, key=lambda one: -one.score) for each in found]  # they were ranked in float32

    def _hypothesis(self, number: int, alignments: list[list[int]]) -> Hypothesis:
        tokens, backpointers, log_prob = self._done[number]
        words = tokens[:-1] if tokens[-1] == self._rules.eos else tokens
        return Hypothesis(
            words,
            [alignments[step][row] for step, row in enumerate(backpointers[: len(words)])],
            log_prob,
            score(log_prob, len(tokens), self._rules.length_penalty),
        )


def _initial_beams(rules: SearchRules) -> ActiveBeams:
    """Returns one empty hypothesis for each sentence."""
    sentences = torch.arange(len(rules.max_tokens), device=rules.max_tokens.device)
    newest, no_tokens = torch.full_like(sentences, rules.sos), sentences.new_empty(len(sentences), 0)
    is_row = torch.ones_like(sentences[:, None], dtype=torch.bool)
    log_probs = torch.zeros_like(sentences, dtype=torch.float32)
    return ActiveBeams(sentences, is_row, log_probs, newest, no_tokens, no_tokens)


def top_candidates(step: Step, active: ActiveBeams, finished_scores: Tensor, rules: SearchRules) -> Candidates:
    """Returns the best of each sentence's continuations and finished hypotheses: the default `RankFn`."""
    log_probs, tokens = _continuations(step.logits, active, rules, finished_scores.shape[1])
    log_probs, scores = rank_scores(log_probs, active, finished_scores, rules)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, : finished_scores.shape[1]]
    return gather_candidates(order, scores, log_probs, tokens, active)


def rank_scores(
    log_probs: Tensor, active: ActiveBeams, finished_scores: Tensor, rules: SearchRules
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities of continuations by sentence, (sentences, width · n), and the scores to rank by.

    log_probs (rows, n). Scores are (sentences, beam_size + width · n): finished hypotheses first, then continuations.
    """
    log_probs = active.pad_by_sentence(log_probs, NEG_INF)
    length = active.tokens.shape[1] + 1
    return log_probs, torch.cat((finished_scores, score(log_probs, length, rules.length_penalty)), dim=1)


def is_ending(candidates: Candidates, active: ActiveBeams, rules: SearchRules) -> Tensor:
    """Whether a candidate's last token is <eos>, or its length the maximum: bool (sentences, beam_size)."""
    is_last = rules.max_tokens[active.sentences, None] == active.tokens.shape[1] + 1
    return (candidates.tokens == rules.eos) | is_last


def _continuations(logits: Tensor, active: ActiveBeams, rules: SearchRules, beam_size: int) -> tuple[Tensor, Tensor]:
    """Returns the best continuations of each active hypothesis: log-probabilities and tokens, (rows, n).

    logits (rows, vocabulary) are overwritten. n is beam_size, or the size of a smaller vocabulary.
    """
    logits = logits.float()
    log_totals = torch.cat([block.logsumexp(dim=1) for block in logits.split(ROWS_PER_BLOCK)])
    rules.mask_logits(logits, active.tokens)
    largest, ids = _top_logits(logits, min(beam_size, logits.shape[1]))
    return active.log_probs[:, None] + (largest - log_totals[:, None]), ids


def _top_logits(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the `count` largest logits of each row in descending order, and their ids. logits are overwritten.

    On a CPU with count up to MAX_ARGMAX_PASSES, the lower id comes first among equal logits.
    """
    if logits.device.type != "cpu" or count > MAX_ARGMAX_PASSES:
        found = logits.topk(count, dim=1)
        return found.values, found.indices
    left, rows = logits.numpy(), np.arange(len(logits))
    ids = np.empty((count, len(left)), dtype=np.int64)
    largest = np.empty((count, len(left)), dtype=left.dtype)
    for place in range(count):
        ids[place] = left.argmax(axis=1)
        largest[place] = left[rows, ids[place]]
        left[rows, ids[place]] = NEG_INF
    return torch.from_numpy(largest).T, torch.from_numpy(ids).T


def gather_candidates(
    order: Tensor, scores: Tensor, log_probs: Tensor, tokens: Tensor, active: ActiveBeams
) -> Candidates:
    """Returns the candidates with the best ranks.

    order int64 (sentences, beam_size): their columns in scores. log_probs (sentences, continuations) and scores
    (sentences, beam_size + continuations): from `rank_scores`. tokens int64 (rows, n): the last token of each
    continuation of a row.
    """
    beam_size, n_each = order.shape[1], tokens.shape[1]
    scores = scores.gather(1, order)
    # With beam_size 3 and two active hypotheses: 0 1 2 continue the first, 3 4 5 the second.
    which = (order - beam_size).clamp(min=0)
    rows = (active.is_row.flatten().cumsum(0) - 1).view_as(active.is_row).gather(1, which // n_each)
    is_continuation = (order >= beam_size) & (scores > NEG_INF)
    tokens = active.pad_by_sentence(tokens, 0).gather(1, which)
    return Candidates(is_continuation, rows, tokens, log_probs.gather(1, which), scores)


def _advance(decoder: StepDecoder, active: ActiveBeams, candidates: Candidates, goes_on: Tensor) -> ActiveBeams:
    """Select the candidates where goes_on, bool (sentences, beam_size), as rows of the next step, also in the decoder.

    For example, three sentences with two rows each have the rows 0 1 | 2 3 | 4 5. Sentence 1 has ended. In sentence 0
    the best candidate continues row 1 and the second row 0; sentence 2 has one candidate, which continues row 5. Then
    the decoder selects [1, 0, 5], and the new rows are 0 1 | 2.
    """
    where = goes_on.nonzero(as_tuple=True)
    rows, newest = candidates.rows[where], candidates.tokens[where]
    decoder.select(rows)
    kept, counts = where[0].unique_consecutive(return_counts=True)
    is_row = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    history = active.extended(rows, newest)
    return ActiveBeams(active.sentences[kept], is_row, candidates.log_probs[where], newest, *history)
