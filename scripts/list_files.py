"""Writes docs/files.md: every module of the package with the first line of its docstring, and every script."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/files.md"
ROOMS = (
    ("", "the top of the package"),
    ("model", "the paper, with its fast forms in fast/"),
    ("decoding", "searches, and what they need of a model"),
    ("training", "the course of a run"),
    ("data", "text, tokens, ids, datasets, batches"),
    ("runs", "what a run looks like on disk"),
    ("evaluation", "losses and scores"),
    ("inspection", "what goes on inside, as numbers and pictures"),
    ("serve", "HTTP"),
    ("commands", "the command line"),
    ("config", "settings"),
    ("compute", "torch and the machine"),
    ("system", "what would serve any program"),
)
HEAD = """\
# Every file

The first line of each module, written by `python scripts/list_files.py`; a test holds this page to the modules.
[design.md](design.md) says how the folders fit together.
"""


def page() -> str:
    """Returns the text of docs/files.md."""
    package = ROOT / "transformer_cli"
    parts = [HEAD]
    for room, what in ROOMS:
        pattern = f"{room}/**/*.py" if room else "*.py"
        rows = [f"- `{path.relative_to(package)}`: {first_line(path)}" for path in sorted(package.glob(pattern))]
        parts.append(
            f"## {f'{room}/, ' if room else ''}{what}\n\n" + "\n".join(row for row in rows if row[-2:] != ": ")
        )
    scripts = [
        f"- `{path.relative_to(ROOT)}`: {first_line(path)}" for path in sorted((ROOT / "scripts").glob("**/*.py"))
    ]
    parts.append("## Scripts\n\n" + "\n".join(row for row in scripts if row[-2:] != ": "))
    return "\n".join(f"{part}\n" for part in parts)


def first_line(path: Path) -> str:
    """Returns the first line of a module's docstring; "" for a file without one."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
