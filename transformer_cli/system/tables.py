"""Rows → tables that fit on the terminal. Knows nothing of what is in the rows."""

from collections.abc import Sequence

from transformer_cli.system import terminal


def table(rows: Sequence[Sequence[str]]) -> str:
    """Join rows with columns as wide as their widest cell; the first is flush left, the others are flush right.

    Columns that do not fit beside each other on a terminal stand below each other, each time with the first column
    before them. Control characters are visible: names may hold line feeds.
    """
    rows = [[terminal.on_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(terminal.width, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str], chosen: Sequence[int]) -> str:
        cells = [f"{row[0]}{' ' * (widths[0] - terminal.width(row[0]))}"]
        cells += [f"{' ' * (widths[column] - terminal.width(row[column]))}{row[column]}" for column in chosen]
        return "  ".join(cells).rstrip()

    return "\n\n".join("\n".join(line(row, chosen) for row in rows) for chosen in _side_by_side(widths))


def _side_by_side(widths: Sequence[int]) -> list[list[int]]:
    """Returns the columns but the first in groups that fit on the terminal beside the first."""
    limit = terminal.columns()
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        wanted = widths[0] + sum(2 + widths[each] for each in (*groups[-1], column))
        if limit is not None and wanted > limit and groups[-1]:
            groups.append([])
        groups[-1].append(column)
    return groups
