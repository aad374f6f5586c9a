"""The pictures of one sentence: attention alone, or attention with the token vectors below it."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.inspection.heatmaps import Block, draw_blocks
from transformer_cli.inspection.style import drawing, save, shown
from transformer_cli.inspection.vectors import HEIGHT, draw_vectors

if TYPE_CHECKING:
    from transformer_cli.inspection.numbers import AttentionMap, Inspection, WordAttention

KINDS = {  # the titles above, beside and below the maps
    "encoder": ("encoder self-attention", "source position …", "… attends to source position"),
    "decoder": ("decoder self-attention", "target position …", "… attends to target position"),
    "cross": ("encoder–decoder attention", "target position …", "… attends to source position"),
}


def draw_attention(maps: Sequence["AttentionMap"], path: Path) -> None:
    """Draw attention weights as heat maps. Replaces `path` by a picture.

    maps: at least one; maps of the same kind are neighbours, as `Inspection.maps` returns them.
    """
    with drawing(path, [text for each in maps for text in (*each.target_tokens, *each.source_tokens)]):
        save(draw_blocks(_blocks(maps)), path)


def draw_inspection(inspection: "Inspection", maps: Sequence["AttentionMap"], path: Path) -> None:
    """Draw attention weights, and below them the source's vectors in the plane. Replaces `path` by a picture."""
    with drawing(path, [*inspection.source_tokens, *inspection.target_tokens]):
        figure = draw_blocks(_blocks(maps), room_below=HEIGHT)
        draw_vectors(
            figure,
            title="source vectors, from before the encoder (dot) to after it (arrow head)",
            tokens=_labels(inspection.source_tokens),
            before=inspection.before.numpy(),
            moved=range(len(inspection.source_tokens)),
            after=inspection.after.numpy(),
        )
        save(figure, path)


def draw_words(words: "WordAttention", path: Path) -> None:
    """Draw the attention of word vectors over themselves, and the vectors below it. Replaces `path` by a picture."""
    scores = f"QKᵀ/√{words.vectors.shape[1]}" if words.is_scaled else "QKᵀ"
    labels = _labels(words.words)
    block = Block(
        title="word vectors, no model: they are Q, K and V",
        beside="word …",
        below="… attends to word",
        targets=[labels[position] for position in words.positions],
        sources=labels,
        maps=[(f"softmax({scores})", words.weights.numpy())],
    )
    with drawing(path, words.words):
        figure = draw_blocks([block], room_below=HEIGHT)
        draw_vectors(
            figure,
            title="word vectors (dot) and what attention makes of them (arrow head)",
            tokens=labels,
            before=words.vectors.numpy(),
            moved=words.positions,
            after=words.context.numpy(),
        )
        save(figure, path)


def _blocks(maps: Sequence["AttentionMap"]) -> list[Block]:
    """Returns one block for each kind of attention."""
    blocks = []
    for kind, group in groupby(maps, key=lambda each: each.kind):
        title, beside, below = KINDS[kind]
        heads = list(group)
        first = heads[0]
        blocks.append(
            Block(
                title=f"{title}, layer {first.layer}",
                beside=beside,
                below=below,
                targets=_labels(first.target_tokens),
                sources=_labels(first.source_tokens),
                maps=[(f"head {each.head}", each.weights.numpy()) for each in heads],
            )
        )
    return blocks


def _labels(tokens: Sequence[str]) -> list[str]:
    return [shown(token) for token in tokens]
