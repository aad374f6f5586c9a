"""Beam search: the best hypotheses of each sentence at each step, all sentences of a batch together.

Knows nothing of words, files or the model. The `beam_size` places of a sentence are shared by live and finished
hypotheses. At each step every live one is continued by its likeliest tokens, the continuations are ranked together with
the finished ones, and the best get the places. A continuation with <eos>, or with as many tokens as are allowed, is
finished then. A finished hypothesis that has to give its place to live ones is not forgotten: it is ranked again at the
next step, when a live one may have fallen behind it. A sentence ends when no live one has a place, or when none can
still become one of its n best. What a live one becomes has at most the score log_prob / limit^α, because
log-probabilities are not positive; with α > 0 that is more than its score now, since the sum is divided by more.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_cli.search.interface import NEG_INF, Hypothesis, Rules, Step, StepDecoder, score

FEW = 64  # up to so many largest logits, taking one after the other is faster on a CPU
IN_CACHE = 64  # rows of logits whose intermediate results stay in a processor's cache


def beam_search(
    decoder: StepDecoder, rules: Rules, *, beam_size: int, n_best: int, ranking: "Ranking | None" = None
) -> list[list[Hypothesis]]:
    """Returns the n_best hypotheses of each sentence, the best score first; fewer, if there are no more.

    Of equal scores, the hypothesis that was finished first goes first; of equal continuations, that of the better
    hypothesis, then (on the CPU, and with few places) the lower id. With beam_size 1 this is greedy search.

    ranking: what gives the places of a step (None: `likeliest`).
    """
    live, finished = _begin(rules), _Finished(rules, beam_size, n_best)
    for _ in range(int(rules.max_tokens.max())):
        step = decoder.decode_step(live.newest)
        finished.most_attended.append(step.attended)
        places = (ranking or likeliest)(step, live, finished.scores[live.sentences], rules)
        is_end = ending(places, live, rules)
        finished.add(live, places, places.is_new & is_end)
        goes_on = places.is_new & ~is_end
        goes_on &= finished.may_get_better(live.sentences, places.log_probs.masked_fill(~goes_on, NEG_INF))
        if not goes_on.any():
            break
        live = _continued(decoder, live, places, goes_on)
    return finished.best()


@dataclass(frozen=True)
class Live:
    """Hypotheses that go on: the decoder's rows. Those of a sentence are neighbours, the best first."""

    sentences: Tensor
    """int64 (sentences that go on,), counted from 0 among all of the batch"""
    is_row: Tensor
    """bool (sentences that go on, width): each sentence has as many as it has rows, on the left

    For example, if sentence 0 has two of three places for live ones, and sentence 1 has one: [[True, True],
    [True, False]]; the decoder's rows are 0 1 | 2.
    """
    log_probs: Tensor
    """(rows,)"""
    newest: Tensor
    """int64 (rows,): the token to be read next"""
    tokens: Tensor
    """int64 (rows, length): all tokens, without <sos>"""
    chosen_by: Tensor
    """int64 (rows, length): for each token, the decoder's row in the step that chose it"""

    def extended(self, rows: Tensor, newest: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `tokens` and `chosen_by` of what continues these of the decoder's rows, int64 (n,), by a token."""
        tokens = torch.cat((self.tokens[rows], newest[:, None]), dim=1)
        return tokens, torch.cat((self.chosen_by[rows], rows[:, None]), dim=1)

    def by_sentence(self, values: Tensor, filled: float) -> Tensor:
        """Returns (sentences that go on, width · n) of values (rows, n), `filled` where a sentence has no row."""
        whole = values.new_full((*self.is_row.shape, values.shape[1]), filled)
        whole[self.is_row.nonzero(as_tuple=True)] = values
        return whole.flatten(1)


@dataclass(frozen=True)
class Places:
    """What the best `beam_size` of a sentence are after a step: all (sentences, beam_size)."""

    is_new: Tensor
    """bool: a continuation, as opposed to what was finished before, or nothing"""
    rows: Tensor
    """int64: the decoder's row that is continued, counted over all sentences"""
    tokens: Tensor
    """int64: the token that it is continued with"""
    log_probs: Tensor
    scores: Tensor


Ranking = Callable[[Step, Live, Tensor, Rules], Places]
"""Gives the places of a step. The tensor: the scores of what each sentence has finished, (sentences, beam_size)"""


class _Finished:
    """The best finished hypotheses of each sentence, and what is needed to tell their tokens and alignment."""

    def __init__(self, rules: Rules, beam_size: int, n_best: int) -> None:
        shape, device = (len(rules.max_tokens), beam_size), rules.max_tokens.device
        self.scores = torch.full(shape, NEG_INF, device=device)  # the best first
        self._numbers = torch.full(shape, -1, device=device)  # in the order in which they were finished
        self._rules = rules
        self._n_best = n_best
        self._longest = rules.max_tokens.float() ** rules.length_penalty
        self._done: list[tuple[list[int], list[int], float]] = []  # tokens, chosen_by, log_prob
        self.most_attended: list[Tensor] = []  # for each step: (rows,)

    def add(self, live: Live, places: Places, is_finished: Tensor) -> None:
        """Rank the places that are finished, bool (sentences, beam_size), among the finished ones; keep the best."""
        if not is_finished.any():
            return
        log_probs = places.log_probs[is_finished]
        tokens, chosen_by = live.extended(places.rows[is_finished], places.tokens[is_finished])
        new = torch.full_like(self._numbers[live.sentences], -1)
        new[is_finished] = torch.arange(len(log_probs), device=new.device) + len(self._done)
        self._done += zip(tokens.tolist(), chosen_by.tolist(), log_probs.tolist(), strict=True)
        scores = torch.cat((self.scores[live.sentences], places.scores.masked_fill(~is_finished, NEG_INF)), dim=1)
        numbers = torch.cat((self._numbers[live.sentences], new), dim=1)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        beam_size = self.scores.shape[1]
        self.scores[live.sentences] = scores[:, :beam_size]
        self._numbers[live.sentences] = numbers.gather(1, order[:, :beam_size])

    def may_get_better(self, sentences: Tensor, log_probs: Tensor) -> Tensor:
        """Whether a live hypothesis can become one of its sentence's n best: bool (sentences, 1).

        log_probs (sentences, beam_size): those of the live hypotheses.
        """
        best = log_probs.amax(dim=1) / self._longest[sentences]
        return (best > self.scores[sentences, self._n_best - 1])[:, None]

    def best(self) -> list[list[Hypothesis]]:
        """Returns the n best of each sentence."""
        most_attended = [each.tolist() for each in self.most_attended]
        numbers = self._numbers[:, : self._n_best].tolist()
        found = [[self._hypothesis(number, most_attended) for number in row if number >= 0] for row in numbers]
        return [sorted(each, key=lambda one: -one.score) for each in found]  # rounding: scores were float32 so far

    def _hypothesis(self, number: int, most_attended: list[list[int]]) -> Hypothesis:
        tokens, chosen_by, log_prob = self._done[number]
        words = tokens[:-1] if tokens[-1] == self._rules.eos else tokens
        return Hypothesis(
            words,
            [most_attended[step][row] for step, row in enumerate(chosen_by[: len(words)])],
            log_prob,
            score(log_prob, len(tokens), self._rules.length_penalty),
        )


def _begin(rules: Rules) -> Live:
    """One hypothesis of each sentence, which has read nothing yet."""
    sentences = torch.arange(len(rules.max_tokens), device=rules.max_tokens.device)
    newest, no_tokens = torch.full_like(sentences, rules.sos), sentences.new_empty(len(sentences), 0)
    is_row = torch.ones_like(sentences[:, None], dtype=torch.bool)
    return Live(sentences, is_row, torch.zeros_like(sentences, dtype=torch.float32), newest, no_tokens, no_tokens)


def likeliest(step: Step, live: Live, of_finished: Tensor, rules: Rules) -> Places:
    """Give the places of each sentence to the best among its continuations and what it has finished: a `Ranking`."""
    log_probs, tokens = _continuations(step.logits, live, rules, of_finished.shape[1])
    log_probs, scores = scored(log_probs, live, of_finished, rules)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, : of_finished.shape[1]]
    return places_of(order, scores, log_probs, tokens, live)


def scored(log_probs: Tensor, live: Live, of_finished: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities of continuations, (rows, n), by sentences, and the scores of all that is ranked.

    The scores are (sentences, beam_size + continuations): first those of what is finished.
    """
    log_probs = live.by_sentence(log_probs, NEG_INF)
    length = live.tokens.shape[1] + 1
    return log_probs, torch.cat((of_finished, log_probs / length**rules.length_penalty), dim=1)


def ending(places: Places, live: Live, rules: Rules) -> Tensor:
    """Whether nothing may follow what has a place: bool (sentences, beam_size)."""
    is_last = rules.max_tokens[live.sentences, None] == live.tokens.shape[1] + 1
    return (places.tokens == rules.eos) | is_last


def _continuations(logits: Tensor, live: Live, rules: Rules, beam_size: int) -> tuple[Tensor, Tensor]:
    """Returns the best continuations of each live hypothesis: log-probabilities and tokens, (rows, n).

    logits (rows, vocabulary) are overwritten. n is beam_size, because no more can get a place, or the vocabulary.
    """
    logits = logits.float()
    log_totals = torch.cat([block.logsumexp(dim=1) for block in logits.split(IN_CACHE)])
    rules.restrict(logits, live.tokens)
    largest, ids = _largest(logits, min(beam_size, logits.shape[1]))
    return live.log_probs[:, None] + (largest - log_totals[:, None]), ids


def _largest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the largest logits of each row in falling order, and their ids. logits are overwritten.

    Of equal ones, a CPU takes the lower id first if there are up to FEW.
    """
    if logits.device.type != "cpu" or count > FEW:
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


def places_of(order: Tensor, scores: Tensor, log_probs: Tensor, tokens: Tensor, live: Live) -> Places:
    """Returns the places that are given to some of what is ranked: first what is finished, then all continuations.

    order int64 (sentences, beam_size): their numbers. scores (sentences, beam_size + continuations): of all that is
    ranked. log_probs (sentences, continuations); tokens (rows, n).
    """
    beam_size, n_each = order.shape[1], tokens.shape[1]
    scores = scores.gather(1, order)
    # With beam 3 and two live ones: 0 1 2 continue the first, 3 4 5 the second.
    which = (order - beam_size).clamp(min=0)
    rows = (live.is_row.flatten().cumsum(0) - 1).view_as(live.is_row).gather(1, which // n_each)
    is_new = (order >= beam_size) & (scores > NEG_INF)
    return Places(is_new, rows, live.by_sentence(tokens, 0).gather(1, which), log_probs.gather(1, which), scores)


def _continued(decoder: StepDecoder, live: Live, places: Places, goes_on: Tensor) -> Live:
    """Returns the live hypotheses of the next step, bool goes_on (sentences, beam_size), and tells the decoder.

    For example, three sentences with two live ones each have the rows 0 1 | 2 3 | 4 5. Sentence 1 has ended. In
    sentence 0 the best continues row 1, and the next one row 0; in sentence 2 only one goes on, which continues row 5.
    Then the decoder selects [1, 0, 5], and the rows are 0 1 | 2.
    """
    where = goes_on.nonzero(as_tuple=True)
    rows, newest = places.rows[where], places.tokens[where]
    decoder.select(rows)
    kept, counts = where[0].unique_consecutive(return_counts=True)
    is_row = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    return Live(live.sentences[kept], is_row, places.log_probs[where], newest, *live.extended(rows, newest))
