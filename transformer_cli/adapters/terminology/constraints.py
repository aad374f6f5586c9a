"""How a beam search writes given terms: the model says where, and what stands around them.

Constrained decoding with dynamic beam allocation (Post and Vilar 2018; vectorised: Hu et al. 2019). To the likeliest
continuations of each hypothesis come those with the next token of a term that it lacks. The candidates of a sentence
are dealt out in turns: to the best of those to which least is missing, to the best of those to which one token more is
missing, and so on, then to the second best of each. None ends before it has all of its terms, unless it is as long as
it may be. All else is as in beam.py, whose search this is; only the candidates are dealt out in another way. Knows ids.
Knows no words and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_cli.search.beam import ActiveBeams, Candidates, gather_candidates, is_ending, rank_scores
from transformer_cli.search.interface import NEG_INF, Ids, SearchRules, Step

WORD_START, WORD_INSIDE = -1, -2  # instead of an id that is in no term: whether a word may begin with it


@dataclass(frozen=True)
class TermConstraints:
    """What a translation has to write: a `search.interface.Constraints`."""

    phrases: tuple[tuple[Ids, ...], ...]
    """for each term, ids that each would do: at least one of them, once for each term"""
    positions: tuple[frozenset[int], ...] = ()
    """for each term the indices of the source tokens of which it is the translation: it begins where one of them is
    attended to, or where the translation would end; () for anywhere"""
    continuation_ids: frozenset[int] = frozenset()
    """ids that go on with a word: a term is not written if one of them follows it"""

    @property
    def min_tokens(self) -> int:
        return sum(min(map(len, each)) for each in self.phrases)

    def rank_fn(self, of_batch: Sequence["TermConstraints"]) -> "ConstrainedRanking":
        return ConstrainedRanking(of_batch)


class ConstrainedRanking:
    """What `beam.beam_search` ranks by where each sentence has terms. One whose limit is too short lacks some."""

    def __init__(self, terms: Sequence[TermConstraints]) -> None:
        """terms: those of each sentence."""
        self._tables = [_StateTable(each) for each in terms]
        self._row_states = [0] * len(terms)  # the state of each row

    def __call__(self, step: Step, active: ActiveBeams, finished_scores: Tensor, rules: SearchRules) -> Candidates:
        """Give the candidates of a step: a `beam.RankFn`."""
        if active.tokens.shape[1]:
            rows = active.backpointers[:, -1].tolist()
            self._tables = [self._tables[row] for row in rows]
            states = zip(self._tables, rows, active.newest.tolist(), strict=True)
            self._row_states = [of.next_state(self._row_states[row], token) for of, row, token in states]
        log_probs, tokens = self._continuations(step, active, rules, finished_scores.shape[1])
        left = [
            [of.n_missing[of.next_state(state, token)] for token in row]
            for of, state, row in zip(self._tables, self._row_states, tokens.tolist(), strict=True)
        ]
        missing = torch.tensor(left, device=tokens.device)
        log_probs, scores = rank_scores(log_probs, active, finished_scores, rules)
        order, missing = allocate_banks(scores, active.pad_by_sentence(missing, 0), finished_scores.shape[1])
        candidates = gather_candidates(order, scores, log_probs, tokens, active)
        # at the limit, what lacks terms counts only if nothing lacks fewer
        is_end = is_ending(candidates, active, rules)
        fewest = missing.masked_fill(~(candidates.is_continuation & is_end), int(missing.max()) + 1).amin(dim=1)
        fewest = fewest.masked_fill(finished_scores[:, 0] > NEG_INF, 0)
        return replace(candidates, is_continuation=candidates.is_continuation & ~(is_end & (missing > fewest[:, None])))

    def _continuations(
        self, step: Step, active: ActiveBeams, rules: SearchRules, beam_size: int
    ) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities and tokens, (rows, n): the likeliest tokens, then those that terms go on with."""
        log_probs = step.logits.float().log_softmax(dim=1)
        device = log_probs.device
        rules.mask_logits(log_probs, active.tokens)
        is_end = (log_probs.argmax(dim=1) == rules.eos).tolist()
        lacks = [of.n_missing[state] > 0 for of, state in zip(self._tables, self._row_states, strict=True)]
        log_probs[torch.tensor(lacks, device=device), rules.eos] = NEG_INF
        best, ids = log_probs.topk(min(beam_size, log_probs.shape[1]), dim=1)
        advancing = [
            of.advancing_ids(state, None if ends else position)
            for of, state, position, ends in zip(
                self._tables, self._row_states, step.alignment.tolist(), is_end, strict=True
            )
        ]
        width = max(map(len, advancing))
        padded = [[*each, *[rules.eos] * (width - len(each))] for each in advancing]
        further = torch.tensor(padded, dtype=torch.int64, device=device).view(len(advancing), width)
        values = log_probs.gather(1, further).masked_fill(further == rules.eos, NEG_INF)
        values = values.masked_fill((further[:, :, None] == ids[:, None]).any(dim=2), NEG_INF)
        return torch.cat((best, values), dim=1) + active.log_probs[:, None], torch.cat((ids, further), dim=1)


def allocate_banks(scores: Tensor, missing: Tensor, beam_size: int) -> tuple[Tensor, Tensor]:
    """Returns which of all that is ranked get the candidates of each sentence, and how many tokens are missing to each.

    scores (sentences, beam_size + continuations): of what is finished, and of the continuations. missing int64
    (sentences, continuations). Both results are int64 (sentences, beam_size). For example, with scores and missing
    tokens -1 (2), -2 (2), -3 (0), -4 (1), -5 (0), three candidates go to -3, -4, -1, and five to -3, -4, -1, -5, -2.
    """
    worst = int(missing.max()) + 1
    lacking = torch.cat((torch.zeros_like(missing[:, :1]).expand(-1, beam_size), missing), dim=1)
    lacking = lacking.masked_fill(scores == NEG_INF, worst)  # what is impossible comes last
    best = scores.argsort(dim=1, descending=True, stable=True)
    order = best.gather(1, lacking.gather(1, best).argsort(dim=1, stable=True))  # by what is missing, then by score
    ranked = lacking.gather(1, order)
    place = torch.arange(order.shape[1], device=order.device).expand_as(order)
    is_first = torch.cat((torch.ones_like(ranked[:, :1], dtype=torch.bool), ranked[:, 1:] != ranked[:, :-1]), dim=1)
    turn = place - (place * is_first).cummax(dim=1).values  # how many better ones miss as much
    turn = turn.masked_fill(scores.gather(1, order) == NEG_INF, order.shape[1])
    order = order.gather(1, turn.argsort(dim=1, stable=True))[:, :beam_size]
    return order, lacking.gather(1, order)


class _State(NamedTuple):
    """How far a hypothesis is."""

    written: int = 0
    """the terms that it has, as bits"""
    path: Ids = ()
    """its last tokens, as far as a phrase begins with them"""
    newest: int = -1
    """the term that `path` is a phrase of; it is taken back if the word, or a longer phrase, goes on"""


class _StateTable:
    """The states of the hypotheses of one sentence, by numbers; they are found as they are needed."""

    def __init__(self, terms: TermConstraints) -> None:
        self._terms = terms
        self._ids = {id_ for each in terms.phrases for phrase in each for id_ in phrase}
        self._numbers: dict[_State, int] = {}
        self._states: list[_State] = []
        self._after: dict[tuple[int, int], int] = {}
        self.n_missing: list[int] = []
        """how many tokens are missing in each state"""
        self._advancing: list[list[int]] = []  # the ids that go on with a phrase that has begun
        self._index_of(_State())

    def next_state(self, number: int, token: int) -> int:
        """Returns the number of the state after a further token."""
        if token not in self._ids:
            token = WORD_INSIDE if token in self._terms.continuation_ids else WORD_START
        found = self._after.get((number, token))
        if found is None:
            found = self._after[number, token] = self._index_of(self._advanced(self._states[number], token))
        return found

    def advancing_ids(self, number: int, position: int | None) -> list[int]:
        """Returns the ids that lead towards a term where a position is attended to (None: where all would end)."""
        if self._advancing[number]:
            return self._advancing[number]
        positions = self._terms.positions
        return sorted(
            {
                phrase[0]
                for phrase, term in self._open(self._states[number].written)
                if position is None or not positions or position in positions[term]
            }
        )

    def _open(self, written: int) -> list[tuple[Ids, int]]:
        """Returns the phrases of all terms that are not written, each with its term."""
        terms = enumerate(self._terms.phrases)
        return [(phrase, term) for term, phrases in terms if not written >> term & 1 for phrase in phrases]

    def _advanced(self, state: _State, token: int) -> _State:
        written, path, newest = state
        own = self._terms.phrases[newest] if newest >= 0 else ()
        if path in own and (token == WORD_INSIDE or token in self._terms.continuation_ids):
            written, newest, own = written & ~(1 << newest), -1, ()  # dog was the beginning of dogs
        phrases = self._open(written)
        shortest = max((len(phrase) for phrase in own if path[: len(phrase)] == phrase), default=1)
        longer, path = (*path, token), ()
        for first in (0, *range(shortest, len(longer))):  # no token belongs to two terms
            if any(phrase[: len(longer) - first] == longer[first:] for phrase, _ in phrases):
                path = longer[first:]
                break
        newest = newest if path == longer else -1
        complete = next((term for phrase, term in phrases if phrase == path), -1)
        if complete >= 0:
            if newest >= 0:  # hot was the beginning of hot dog
                written &= ~(1 << newest)
            written, newest = written | 1 << complete, complete
        return _State(written, path, newest)

    def _index_of(self, state: _State) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
            phrases, n = self._open(state.written), len(state.path)
            fewest = {term: min(map(len, self._terms.phrases[term])) for _, term in phrases}
            advancing = [
                (phrase, term) for phrase, term in phrases if n and len(phrase) > n and phrase[:n] == state.path
            ]
            gained = max((fewest[term] - (len(phrase) - n) for phrase, term in advancing), default=0)
            self.n_missing.append(sum(fewest.values()) - max(gained, 0))
            self._advancing.append(sorted({phrase[n] for phrase, _ in advancing}))
        return self._numbers[state]
