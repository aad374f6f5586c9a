"""Updates docs/python.md from the docstrings of the public names; its other text and its examples stay.

python scripts/python_page.py

A section whose title is a public name gets its signature, its docstring and, for a class, its fields and methods. Its
example, a block ```python with the comment before it, is kept, and so are all other sections.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import transformer_cli

PAGE = Path(__file__).parents[1] / "docs/python.md"
SECTION = re.compile(r"^## ", re.MULTILINE)
EXAMPLE = re.compile(r"^(?:<!--(?:(?!-->).)*-->\n)?```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
WIDTH = 120
NAMES_ALONE = ("Translation", "Inspection")  # classes whose members other pages explain
INTERNAL = {  # members that tfm itself uses, which the page leaves out
    *("create", "uninitialized_model", "refuse_exported", "refuse_if_gone", "warn_if_tokenizer_changed"),
    *("write_history", "for_new_run", "translate_encoded", "translate_lines", "with_callback", "reference_files"),
    *("tokens_on_one_line", "source_mask", "init_cache", "next_logits", "needed_validations", "final_weights"),
    *("before_new_run", "on_new_run", "implements", "as_translator", "stream"),
}


def as_page(text: str) -> str:
    """Returns the page with the current docstrings. Raises ValueError for a public name without a section."""
    first, *sections = SECTION.split(text)
    titles = [section.partition("\n")[0] for section in sections]
    if missing := transformer_cli._HOME.keys() - set(titles):
        raise ValueError(f"{PAGE.name} lacks sections: {', '.join(sorted(missing))}")
    written = [
        f"{title}\n\n{_about(title)}{_kept(section)}" if title in transformer_cli._HOME else section
        for title, section in zip(titles, sections, strict=True)
    ]
    return "## ".join([first, *written])


def examples(text: str) -> dict[str, str]:
    """Returns the examples of a page by the titles of their sections, in order."""
    sections = {section.partition("\n")[0]: section for section in SECTION.split(text)}
    found = {title: "".join(EXAMPLE.findall(section)) for title, section in sections.items()}
    return {title: program for title, program in found.items() if program}


def _kept(section: str) -> str:
    example = EXAMPLE.search(section)
    return f"\n{section[example.start() :].rstrip()}\n\n" if example else "\n"


def _about(name: str) -> str:
    public = getattr(transformer_cli, name)
    call = f"```\n{_call(name, public)}\n```\n\n" if not isinstance(public, type) or name == "Translator" else ""
    return f"{call}{_words(public)}\n{''.join(_members(public)) if isinstance(public, type) else ''}"


def _call(name: str, function: Any) -> str:
    """Returns the signature of a function, wrapped."""
    parameters = inspect.signature(function).parameters.values()
    said = [_parameter(each) for each in parameters if each.name not in ("self", "cls")]
    keyword = next((row for row, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)
    if keyword is not None and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        said.insert(keyword - (len(parameters) - len(said)), "*")
    line = f"{name}({', '.join(said)})"
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent=" " * (len(name) + 1), break_long_words=False))


def _parameter(each: inspect.Parameter) -> str:
    stars = "*" * ((each.kind is each.VAR_POSITIONAL) + 2 * (each.kind is each.VAR_KEYWORD))
    default = each.default
    shown = "…" if callable(default) else repr(str(default) if isinstance(default, Path) else default)
    if is_dataclass(default):
        shown = f"{type(default).__name__}()"
    return f"{stars}{each.name}" + ("" if default is each.empty else f"={shown}")


def _words(public: Any) -> str:
    """Returns a docstring as Markdown."""
    return _escaped(inspect.cleandoc((public.__init__ if public.__name__ == "Translator" else public).__doc__ or ""))


def _escaped(text: str) -> str:
    return re.sub(r"(`[^`]*`)|<", lambda found: found[1] or "\\<", text)


def _members(public: type) -> Iterator[str]:
    """Yields the fields of a class with their docstrings, then its methods with the first sentence of theirs."""
    own = [each for each in public.__mro__ if each.__name__ == public.__name__]  # it, and the core's, which it extends
    lines = []
    for node, after in pairwise([*chain.from_iterable(map(_body, own)), ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            says = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
            lines.append((node.target.id, says))
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not _is_overload(node):
            member = inspect.getattr_static(public, node.name)
            function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            called = node.name if isinstance(member, property) else _call(node.name, function)
            lines.append((" ".join(called.split()), ast.get_docstring(node) or ""))
    lines = [each for each in lines if each[0].partition("(")[0] not in INTERNAL]
    if public.__name__ in NAMES_ALONE:
        listed = ", ".join(f"`{name}`" for name, _ in lines)
        home = public.__module__.replace(".", "/")
        yield "\n" + textwrap.fill(f"{listed}. Each has a docstring in `{home}.py`.", WIDTH) + "\n"
        return
    for number, (name, says) in enumerate(lines):
        text = " ".join(says.split())
        said = _escaped(re.split(r"(?<=\.)\s", text)[0]).removesuffix(".")
        line = f"- `{name}`{': ' if said else ''}{said}"
        yield "\n" * (number == 0) + textwrap.fill(line, WIDTH, subsequent_indent="  ") + "\n"


def _is_overload(node: ast.FunctionDef) -> bool:
    return "overload" in map(ast.unparse, node.decorator_list)


def _body(each: type) -> list[ast.stmt]:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
    assert isinstance(node, ast.ClassDef)
    return node.body


if __name__ == "__main__":
    PAGE.write_text(as_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
