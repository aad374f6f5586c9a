"""Tables as commands print them: one function writes them as text, Markdown, LaTeX or CSV. Knows no runs."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transformer_cli.system.terminal import escape_controls, format_table

TableFormat = Literal["text", "markdown", "latex", "csv"]
LATEX_ESCAPES = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "<": "$<$",
    ">": "$>$",
    "–": "--",
    "…": r"\dots{}",
    "√": r"$\surd$",
    "×": r"$\times$",
}
SIGN = re.compile(r"^([+-])(?=\d)")


@dataclass(frozen=True)
class Column:
    """A column: its header, a value for each row (None: nothing to say), and how a value is written for people.

    A value that is a pair is a number and what stands after its ±.
    """

    header: str
    values: Sequence[Any]
    written: Callable[[Any], str] = str
    unknown: str = ""
    """what is written for None"""

    @property
    def cells(self) -> list[str]:
        """The values as people read them."""
        return [self.unknown if value is None else self.written(value) for value in self.values]

    @property
    def align(self) -> Literal["l", "r"]:
        """Where cells stand: words on the left, numbers, also such as 9/10 or 1e-3, on the right."""
        return "l" if any(isinstance(value, str) and value[:1].isalpha() for value in self.values) else "r"

    def numeric_columns(self) -> "list[tuple[str, Sequence[Any]]]":
        """Returns the column as programs read it: a pair becomes two columns, the second with a ± in its header."""
        if not any(isinstance(value, tuple) for value in self.values):
            return [(self.header, self.values)]
        pairs = [value if isinstance(value, tuple) else (value, None) for value in self.values]
        header, _, of = self.header.partition(" ± ")
        return [(header, [one for one, _ in pairs]), (f"{header} ± {of}".rstrip(), [other for _, other in pairs])]


def plus_minus(pair: tuple[float, float | None]) -> str:
    """Returns a number and what stands after its ±, if anything: 34.44 ± 1.52."""
    return f"{pair[0]:.2f}" if pair[1] is None else f"{pair[0]:.2f} ± {pair[1]:.2f}"


def render_table(columns: Sequence[Column], form: TableFormat = "text", notes: str = "") -> str:
    """Returns a table, and below it notes: in LaTeX as comments, in CSV not at all."""
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
        said = [f"% {line}" for line in notes.split("\n") if line]
        return "\n".join([*frame, r"\bottomrule", r"\end{tabular}", *said])
    return "\n".join([format_table(rows), *([notes] if notes else [])])


def _escape_latex(cell: str) -> str:
    """Returns a cell as LaTeX sets it: 34.44 ± 1.52, −4.35, 100 \\%."""
    escaped = "".join(LATEX_ESCAPES.get(character, character) for character in cell)
    return SIGN.sub(r"$\1$", escaped)
