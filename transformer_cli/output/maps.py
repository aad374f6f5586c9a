"""Attention weights → heat maps of Unicode blocks, for a terminal. Reads no file; imports no torch."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_cli.inspection.numbers import AttentionMap, WordAttention

TITLES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "encoder–decoder attention",
}
SHADES = ((0.75, "██"), (0.5, "▓▓"), (0.25, "▒▒"), (0.05, "░░"), (0.0, "  "))  # weights from …
MEANING = "rows attend to columns; weights from  ░░ 0.05  ▒▒ 0.25  ▓▓ 0.50  ██ 0.75"
LONGEST = 14  # columns of the terminal for a token
JOINER = "\u200d"


def maps_as_blocks(maps: Sequence["AttentionMap"], *, width: int) -> str:
    """Returns the maps of each kind below their title, side by side if they fit in `width` columns of the terminal."""
    parts = [MEANING]
    for (kind, layer), group in groupby(maps, key=lambda each: (each.kind, each.layer)):
        heads = list(group)
        parts.append(f"{TITLES[kind]}, layer {layer}")
        named = [(f"head {each.head}", each.weights.tolist()) for each in heads]
        parts.append(_side_by_side(named, heads[0].target_tokens, heads[0].source_tokens, width))
    return "\n\n".join(parts)


def words_as_blocks(found: "WordAttention", *, width: int) -> str:
    """Returns the attention of word vectors as one map, in `width` columns of the terminal or a few more."""
    rows = [found.words[position] for position in found.positions]
    return f"{MEANING}\n\n{_side_by_side([('', found.weights.tolist())], rows, found.words, width)}"


def _side_by_side(
    maps: Sequence[tuple[str, list[list[float]]]], rows: Sequence[str], columns: Sequence[str], width: int
) -> str:
    """Returns maps of the same tokens; one that is too wide for the terminal is cut into parts below each other."""
    names = [_cut(token) for token in rows]
    margin = max(map(_width, names)) + 1
    room = max(width - margin, 16)
    if 2 * len(columns) > room:
        cuts = [slice(start, start + room // 2) for start in range(0, len(columns), room // 2)]
        blocks = [
            _rows_of_maps([(f"{title} {_part(cut, columns)}".strip(), weights)], names, margin, columns, cut)
            for title, weights in maps
            for cut in cuts
        ]
    else:
        at_once = max(1, (room + 2) // (2 * len(columns) + 2))
        groups = [maps[start : start + at_once] for start in range(0, len(maps), at_once)]
        blocks = [_rows_of_maps(group, names, margin, columns, slice(None)) for group in groups]
    return "\n\n".join(blocks)


def _part(cut: slice, columns: Sequence[str]) -> str:
    return f"(columns {cut.start + 1}–{min(cut.stop, len(columns))} of {len(columns)})"


def _rows_of_maps(
    maps: Sequence[tuple[str, list[list[float]]]], names: Sequence[str], margin: int, columns: Sequence[str], cut: slice
) -> str:
    """Returns one row of maps: their titles, the columns' tokens written downwards, and the weights."""
    heads = [list(_clusters(_cut(token))) for token in columns[cut]]
    depth = max(map(len, heads))
    titles = "  ".join(_pad(title, 2 * len(heads)) for title, _ in maps)
    lines = [" " * margin + titles] if titles.strip() else []
    for level in range(depth):
        letters = "".join(_pad(head[at] if (at := level - depth + len(head)) >= 0 else "", 2) for head in heads)
        lines.append(" " * margin + "  ".join([letters] * len(maps)))
    for index, name in enumerate(names):
        cells = "  ".join("".join(map(_shade, weights[index][cut])) for _, weights in maps)
        lines.append(" " * (margin - 1 - _width(name)) + f"{name} {cells}")
    return "\n".join(line.rstrip() for line in lines)


def _shade(weight: float) -> str:
    return next(shade for least, shade in SHADES if weight >= least)


def _cut(token: str) -> str:
    """Returns a token with all its characters visible, and no wider than LONGEST."""
    shown = "".join(one if one.isprintable() or one == JOINER else f"<U+{ord(one):04X}>" for one in token)
    if not any(_width(one) for one in shown):
        shown = "".join(f"<U+{ord(one):04X}>" for one in shown)
    if _width(shown) <= LONGEST:
        return shown
    kept = ""
    for cluster in _clusters(shown):
        if _width(kept + cluster) >= LONGEST:
            break
        kept += cluster
    return f"{kept}…"


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """Returns how many columns of a terminal a text takes: two for a Chinese character, or for joined emoji."""
    return sum(min(2, max(map(_columns, cluster), default=0)) for cluster in _clusters(text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clusters(text: str) -> Iterator[str]:
    """Yield what is written as one sign: a character with the marks on it, or emoji that are joined."""
    cluster = ""
    for character in text:
        is_mark = _columns(character) == 0 or "\U0001f3fb" <= character <= "\U0001f3ff"  # colours of skin
        if cluster and not is_mark and not cluster.endswith(JOINER):
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster
