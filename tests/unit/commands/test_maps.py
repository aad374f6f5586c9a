"""Attention as blocks of text: which shade, where, and in how many columns of a terminal."""

import pytest
import torch

from transformer_cli.commands.inspect import maps_as_blocks
from transformer_cli.inspection.numbers import AttentionMap
from transformer_cli.system.terminal import width


def a_map(rows: list[str], columns: list[str], weights: list[list[float]], head: int = 1) -> AttentionMap:
    return AttentionMap("cross", 2, head, rows, columns, None, torch.tensor(weights))


def test_weights_are_shades_below_their_tokens() -> None:
    weights = [[0.8, 0.15, 0.05], [0.0, 0.4, 0.6]]
    maps = [a_map(["<sos>", "a"], ["ein", "ö", "两"], weights, head) for head in (1, 2)]
    assert maps_as_blocks(maps, columns=80).split("\n")[2:] == [
        "encoder–decoder attention, layer 2",
        "",
        "      head 1  head 2",
        "      e       e",
        "      i       i",
        "      n ö 两  n ö 两",
        "<sos> ██░░░░  ██░░░░",
        "    a   ▒▒▓▓    ▒▒▓▓",
    ]


@pytest.mark.parametrize("n_tokens", [1, 5, 40, 300])
def test_no_line_is_wider_than_the_terminal(n_tokens: int) -> None:
    columns = ["a" * 50, "👨\u200d👩\u200d👧", "כלב", "\x1b[31m", "\u200f", " ", *(["两"] * n_tokens)]
    weights = torch.rand(4, len(columns)).tolist()
    text = maps_as_blocks(
        [a_map(["word " * 9, "a", "👩\u200d🚀", "猫"], columns, weights, head) for head in (1, 2)], columns=80
    )
    assert max(map(width, text.split("\n"))) <= 80
    assert "\x1b" not in text
    assert "<U+200F>"[-1] in text
