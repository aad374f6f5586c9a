"""Renders tables as text, Markdown, LaTeX or CSV. Does not know what a run is."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transformer_cli.system.terminal import escape_controls, format_table

TableFormat = Literal["text", "markdown", "latex", "csv"]
LATEX_ESCAPES: dict[str, str | int | None] = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "<": "$<$",
    ">": "$>$",
    "√": r"$\surd$",
    "×": r"$\times$",
    "†": r"\rlap{$^\dagger$}",  # takes no width, so that numbers stay aligned
}
BOLD = re.compile(r"^\*\*(.+?)\*\*")
SIGN = re.compile(r"^(\**)([+-])(?=\d)")


@dataclass(frozen=True)
class Column:
    """A column: its header, a value for each row (None: unknown), and the function that formats a value.

    A pair of numbers is a value and its ±. In Markdown and LaTeX, the beginning of a cell between ** is bold.
    """

    header: str
    values: Sequence[Any]
    formatter: Callable[[Any], str] = str
    unknown: str = ""
    """the cell for None"""

    @property
    def cells(self) -> list[str]:
        """The formatted values."""
        return [self.unknown if value is None else self.formatter(value) for value in self.values]

    @property
    def align(self) -> Literal["l", "r"]:
        """The alignment: words on the left; numbers, also such as 9/10 or 1e-3, on the right."""
        return "l" if any(isinstance(value, str) and value[:1].isalpha() for value in self.values) else "r"

    def numeric_columns(self) -> "list[tuple[str, Sequence[Any]]]":
        """Returns the column for CSV: pairs become two columns, the second with ± in its header."""
        if not any(isinstance(value, tuple) for value in self.values):
            return [(self.header, self.values)]
        pairs = [value if isinstance(value, tuple) else (value, None) for value in self.values]
        header, _, of = self.header.partition(" ± ")
        return [(header, [one for one, _ in pairs]), (f"{header} ± {of}".rstrip(), [other for _, other in pairs])]


def plus_minus(pair: tuple[float, float | None]) -> str:
    """Formats a number, and its ± if there is one: 34.44 ± 1.52."""
    return f"{pair[0]:.2f}" if pair[1] is None else f"{pair[0]:.2f} ± {pair[1]:.2f}"


def render_table(columns: Sequence[Column], form: TableFormat = "text", notes: str = "") -> str:
    """Returns a table with notes below it, which are comments in LaTeX and left out in CSV."""
    if form == "csv":
        headers, values = zip(*(part for column in columns for part in column.numeric_columns()), strict=True)
        content = io.StringIO()
        csv.writer(content, lineterminator="\n").writerows([headers, *zip(*values, strict=True)])
        return content.getvalue().removesuffix("\n")
    rows = [[escape_controls(column.header) for column in columns]]
    rows += [[*map(escape_controls, row)] for row in zip(*(column.cells for column in columns), strict=True)]
    aligns = ["l", *(column.align for column in columns[1:])]
    if form == "markdown":
        lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
        lines.insert(1, f"|{'|'.join({'l': '---', 'r': '--:'}[align] for align in aligns)}|")
        return "\n".join([*lines, "", *(f"{line}\n" for line in notes.split("\n") if line)]).rstrip("\n")
    if form == "latex":  # with the package booktabs
        header, *body = (f"{' & '.join(map(_escape_latex, row))} \\\\" for row in rows)
        frame = [f"\\begin{{tabular}}{{{''.join(aligns)}}}", r"\toprule", header, r"\midrule", *body]
        comments = [f"% {line}" for line in notes.split("\n") if line]
        return "\n".join([*frame, r"\bottomrule", r"\end{tabular}", *comments])
    return "\n".join([format_table(rows), *([notes] if notes else [])])


def _escape_latex(cell: str) -> str:
    escaped = cell.translate(str.maketrans(LATEX_ESCAPES))
    return BOLD.sub(r"\\textbf{\1}", SIGN.sub(r"\1$\2$", escaped))
