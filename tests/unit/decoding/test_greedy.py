"""Greedy search over a decoder that says what a table says."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from transformer_cli.decoding.greedy import greedy
from transformer_cli.decoding.interface import Hypothesis, Rules, Step

SOS, EOS, A, B, C = range(5)
NEVER = torch.tensor([SOS])
NOTHING = torch.tensor([], dtype=torch.int64)
FAVOURITE = 2.0  # the logit of a scripted token; all others have 0


@dataclass
class Scripted:
    """Prefers the tokens of its script, row by row, and looks at the source position 10·row + step.

    It has one head, whose weights are (row, step).
    """

    script: list[list[int]]
    fed: list[list[int]] = field(default_factory=list)
    selected: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = torch.arange(len(self.script))

    def step(self, tokens: Tensor) -> Step:
        position = len(self.fed)
        self.fed.append(tokens.tolist())
        logits = torch.zeros(len(self.rows), 5)
        for index, row in enumerate(self.rows.tolist()):
            logits[index, self.script[row][position]] = FAVOURITE
        attention = torch.stack([self.rows, torch.full_like(self.rows, position)], dim=1)[:, None].float()
        return Step(logits, attention, 10 * self.rows + position)

    def select(self, rows: Tensor) -> None:
        self.selected.append(rows.tolist())
        self.rows = self.rows[rows]


def search(decoder: Scripted, max_tokens: list[int], never: Tensor = NEVER) -> list[Hypothesis]:
    return greedy(decoder, Rules(torch.tensor(max_tokens), SOS, EOS, never))


def test_finished_rows_are_dropped_and_results_keep_their_order() -> None:
    decoder = Scripted([[A, B, EOS], [EOS], [C, EOS], [B, B, B, EOS]])
    found = search(decoder, [9, 9, 9, 9])
    assert [row.tokens for row in found] == [[A, B], [], [C], [B, B, B]]
    assert [row.attended for row in found] == [[0, 1], [], [20], [30, 31, 32]]
    assert decoder.fed == [[SOS] * 4, [A, C, B], [B, B], [B]]
    assert decoder.selected == [[0, 2, 3], [0, 2], [1]]


def test_no_row_is_dropped_while_all_rows_go_on_and_nothing_is_asked_after_the_last() -> None:
    decoder = Scripted([[A, B, EOS, A], [B, A, EOS, A]])
    search(decoder, [9, 9])
    assert decoder.fed == [[SOS, SOS], [A, B], [B, A]]
    assert decoder.selected == []


def test_each_row_stops_at_its_own_limit() -> None:
    decoder = Scripted([[A, B, C, A], [A, B, C, A], [A, EOS]])
    assert [row.tokens for row in search(decoder, [1, 3, 3])] == [[A], [A, B, C], [A]]
    assert [len(tokens) for tokens in decoder.fed] == [3, 2, 1]


def test_what_is_never_taken_gives_way_to_the_next_best() -> None:
    decoder = Scripted([[SOS, B], [A, B]])
    found = search(decoder, [2, 2], never=torch.tensor([SOS, A]))
    assert not {SOS, A} & {token for row in found for token in row.tokens}
    assert found[1].tokens == []  # all others are equal, and <eos> is the first of them


@pytest.mark.parametrize(
    ("script", "limit", "n_steps"),
    [pytest.param([A, B, EOS], 9, 3, id="with <eos>"), pytest.param([A, B, C], 2, 2, id="cut off before it")],
)
def test_log_prob_sums_the_log_softmax_of_what_was_taken(script: list[int], limit: int, n_steps: int) -> None:
    found = search(Scripted([script, [EOS]]), [limit, limit], never=NOTHING)
    one_step = torch.tensor([FAVOURITE, 0.0, 0.0, 0.0, 0.0]).log_softmax(dim=0)[0].item()
    assert [row.log_prob for row in found] == pytest.approx([n_steps * one_step, one_step])


def test_of_equally_likely_tokens_the_first_is_taken() -> None:
    decoder = Scripted([[B, EOS]])
    step = decoder.step

    def undecided(tokens: Tensor) -> Step:
        found = step(tokens)
        found.logits[:, C] = found.logits[:, B]
        return found

    decoder.step = undecided  # type: ignore[method-assign]
    assert search(decoder, [1])[0].tokens == [B]


def test_attention_travels_with_its_row_where_it_is_asked_for() -> None:
    script = [[A, B, EOS], [EOS], [C, A]]
    found = greedy(Scripted(script), Rules(torch.tensor([9, 9, 2]), SOS, EOS, NEVER, keep_attention=True))
    expected = [[[row, step] for step in range(n_steps)] for row, n_steps in enumerate((3, 1, 2))]
    for row, steps in zip(found, expected, strict=True):
        assert row.attention is not None
        assert row.attention.tolist() == [steps]  # one head: (1, steps, source)
    assert [row.attention for row in search(Scripted(script), [9, 9, 2])] == [None] * 3
