"""Attention as blocks of text: which shade, and where."""

import torch

from transformer_cli.commands.inspect import maps_as_blocks
from transformer_cli.inspection.numbers import AttentionMap


def test_maps_as_blocks_shows_weights_as_shades_below_tokens() -> None:
    rows, columns, weights = ["<sos>", "a\n"], ["ein", "ö", "两"], torch.tensor([[0.8, 0.15, 0.05], [0.0, 0.4, 0.6]])
    maps = [AttentionMap("cross", 2, head, rows, columns, weights, weights) for head in (1, 2)]
    assert maps_as_blocks(maps).split("\n")[2:6] == [
        "encoder–decoder attention, layer 2",
        "head 1  ein   ö  两",
        "<sos>    ██  ░░  ░░",
        "a\\n          ▒▒  ▓▓",
    ]
