"""Beam search with lexical constraints: a translation must contain given terms, and the model decides where.

Constrained decoding with dynamic beam allocation (Post and Vilar 2018; vectorised: Hu et al. 2019). The candidates of a
step are the likeliest continuations of each hypothesis, and those with the next token of a missing term. Candidates
that lack the same number of tokens form a bank. The beams of a sentence go to the best candidate of each bank, from the
fewest missing tokens to the most, then to the second best of each, and so on. A hypothesis cannot end before it has
all of its terms, unless it reaches the maximum length. The search itself is that of beam.py. Knows ids, but no words
and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_cli.search.beam import ActiveBeams, Candidates, gather_candidates, is_ending, rank_scores
from transformer_cli.search.protocols import Ids, Step
from transformer_cli.search.rules import NEG_INF, SearchRules

WORD_START, WORD_INSIDE = -1, -2  # stand for ids in no term: those that begin a word, and those inside one


@dataclass(frozen=True)
class TermConstraints:
    """The terms that a translation must contain: a `search.protocols.Constraints`."""

    phrases: tuple[tuple[Ids, ...], ...]
    """for each term, alternative phrases, one of which must be written"""
    positions: tuple[frozenset[int], ...] = ()
    """for each term, the indices of its source tokens: it may begin where one of them is attended to, or where the
    translation would end; () for anywhere"""
    continuation_ids: frozenset[int] = frozenset()
    """ids that continue a word: a phrase does not count as written if one of them follows it"""

    @property
    def min_tokens(self) -> int:
        return sum(min(map(len, each)) for each in self.phrases)

    def rank_fn(self, of_batch: Sequence["TermConstraints"]) -> "ConstrainedRanking":
        return ConstrainedRanking(of_batch)


class ConstrainedRanking:
    """Ranks the candidates of `beam.beam_search` if each sentence has constraints."""

    def __init__(self, constraints: Sequence[TermConstraints]) -> None:
        """constraints: one for each sentence."""
        self._tables = [_StateTable(each) for each in constraints]
        self._row_states = [_State()] * len(constraints)

    def __call__(self, step: Step, active: ActiveBeams, finished_scores: Tensor, rules: SearchRules) -> Candidates:
        """Returns the candidates of a step: a `beam.RankFn`."""
        if active.tokens.shape[1]:
            rows = active.backpointers[:, -1].tolist()
            self._tables = [self._tables[row] for row in rows]
            states = zip(self._tables, rows, active.newest.tolist(), strict=True)
            self._row_states = [table.next_state(self._row_states[row], token) for table, row, token in states]
        log_probs, tokens = self._continuations(step, active, rules, finished_scores.shape[1])
        n_missing = [
            [table.outlook(table.next_state(state, token))[0] for token in row]
            for table, state, row in zip(self._tables, self._row_states, tokens.tolist(), strict=True)
        ]
        missing = torch.tensor(n_missing, device=tokens.device)
        log_probs, scores = rank_scores(log_probs, active, finished_scores, rules)
        order, missing = allocate_banks(scores, active.pad_by_sentence(missing, 0), finished_scores.shape[1])
        candidates = gather_candidates(order, scores, log_probs, tokens, active)
        # at the maximum length, only the hypotheses with the fewest missing tokens are kept
        is_end = is_ending(candidates, active, rules)
        fewest = missing.masked_fill(~(candidates.is_continuation & is_end), int(missing.max()) + 1).amin(dim=1)
        fewest = fewest.masked_fill(finished_scores[:, 0] > NEG_INF, 0)
        return replace(candidates, is_continuation=candidates.is_continuation & ~(is_end & (missing > fewest[:, None])))

    def _continuations(
        self, step: Step, active: ActiveBeams, rules: SearchRules, beam_size: int
    ) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities and tokens, (rows, n): the likeliest tokens, then the next ones of terms."""
        log_probs = step.logits.float().log_softmax(dim=1)
        device = log_probs.device
        rules.mask_logits(log_probs, active.tokens)
        is_end = (log_probs.argmax(dim=1) == rules.eos).tolist()
        incomplete = [table.outlook(state)[0] > 0 for table, state in zip(self._tables, self._row_states, strict=True)]
        log_probs[torch.tensor(incomplete, device=device), rules.eos] = NEG_INF
        best, ids = log_probs.topk(min(beam_size, log_probs.shape[1]), dim=1)
        rows = zip(self._tables, self._row_states, step.alignment.tolist(), is_end, strict=True)
        advancing = [table.advancing_ids(state, None if ends else position) for table, state, position, ends in rows]
        width = max(map(len, advancing))
        padded = [[*each, *[rules.eos] * (width - len(each))] for each in advancing]
        further = torch.tensor(padded, dtype=torch.int64, device=device).view(len(advancing), width)
        values = log_probs.gather(1, further).masked_fill(further == rules.eos, NEG_INF)
        values = values.masked_fill((further[:, :, None] == ids[:, None]).any(dim=2), NEG_INF)
        return torch.cat((best, values), dim=1) + active.log_probs[:, None], torch.cat((ids, further), dim=1)


def allocate_banks(scores: Tensor, missing: Tensor, beam_size: int) -> tuple[Tensor, Tensor]:
    """Allocate the beams of each sentence to its banks; returns the chosen indices, and their missing tokens.

    scores (sentences, beam_size + continuations): of finished hypotheses, then of continuations. missing int64
    (sentences, continuations): number of missing tokens. Both results are int64 (sentences, beam_size). For example,
    with the scores (and missing tokens) -1 (2), -2 (2), -3 (0), -4 (1), -5 (0), three beams go to -3, -4, -1, and five
    to -3, -4, -1, -5, -2.
    """
    worst = int(missing.max()) + 1
    banks = torch.cat((torch.zeros_like(missing[:, :1]).expand(-1, beam_size), missing), dim=1)
    banks = banks.masked_fill(scores == NEG_INF, worst)  # impossible ones come last
    best = scores.argsort(dim=1, descending=True, stable=True)
    order = best.gather(1, banks.gather(1, best).argsort(dim=1, stable=True))  # by bank, then by score
    ranked = banks.gather(1, order)
    place = torch.arange(order.shape[1], device=order.device).expand_as(order)
    is_first = torch.cat((torch.ones_like(ranked[:, :1], dtype=torch.bool), ranked[:, 1:] != ranked[:, :-1]), dim=1)
    turn = place - (place * is_first).cummax(dim=1).values  # rank within the bank, from 0
    turn = turn.masked_fill(scores.gather(1, order) == NEG_INF, order.shape[1])
    order = order.gather(1, turn.argsort(dim=1, stable=True))[:, :beam_size]
    return order, banks.gather(1, order)


class _State(NamedTuple):
    """A hypothesis' progress with the terms."""

    written: int = 0
    """the terms that it contains, as bits"""
    path: Ids = ()
    """its longest suffix that is the beginning of a phrase"""
    newest: int = -1
    """the term that `path` completes; no longer written if its last word continues, or a longer phrase is completed"""


class _StateTable:
    """A state machine for one sentence, which computes once what follows from a state that is reached."""

    def __init__(self, terms: TermConstraints) -> None:
        self._terms = terms
        self._ids = {id_ for each in terms.phrases for phrase in each for id_ in phrase}
        self._after: dict[tuple[_State, int], _State] = {}
        self._outlooks: dict[_State, tuple[int, list[int]]] = {}

    def next_state(self, state: _State, token: int) -> _State:
        """Returns the state after a further token."""
        if token not in self._ids:
            token = WORD_INSIDE if token in self._terms.continuation_ids else WORD_START
        if (state, token) not in self._after:
            self._after[state, token] = self._advanced(state, token)
        return self._after[state, token]

    def outlook(self, state: _State) -> tuple[int, list[int]]:
        """Returns the number of missing tokens, and the next ids of the phrases that have begun."""
        if state not in self._outlooks:
            missing, n = self._missing_phrases(state.written), len(state.path)
            fewest = {term: min(map(len, self._terms.phrases[term])) for _, term in missing}
            begun = [(each, term) for each, term in missing if n and len(each) > n and each[:n] == state.path]
            gained = max((fewest[term] - (len(each) - n) for each, term in begun), default=0)
            self._outlooks[state] = sum(fewest.values()) - max(gained, 0), sorted({each[n] for each, _ in begun})
        return self._outlooks[state]

    def advancing_ids(self, state: _State, position: int | None) -> list[int]:
        """Returns the ids that continue a term, or else begin one. position: attended to (None: at the end)."""
        if begun := self.outlook(state)[1]:
            return begun
        positions, missing = self._terms.positions, self._missing_phrases(state.written)
        is_anywhere = position is None or not positions
        return sorted({phrase[0] for phrase, term in missing if is_anywhere or position in positions[term]})

    def _missing_phrases(self, written: int) -> list[tuple[Ids, int]]:
        """Returns the phrases of all missing terms, each with its term."""
        terms = enumerate(self._terms.phrases)
        return [(phrase, term) for term, phrases in terms if not written >> term & 1 for phrase in phrases]

    def _advanced(self, state: _State, token: int) -> _State:
        written, path, newest = state
        own = self._terms.phrases[newest] if newest >= 0 else ()
        if path in own and (token == WORD_INSIDE or token in self._terms.continuation_ids):
            written, newest, own = written & ~(1 << newest), -1, ()  # dog was the beginning of dogs
        phrases = self._missing_phrases(written)
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
