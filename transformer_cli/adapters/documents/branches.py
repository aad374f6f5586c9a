"""Finds code of templates in text, and tells what it does: print a value, or choose among parts of the text.

Knows Django, Jinja, Twig, Liquid, Handlebars, ERB, EJS, JSP and PHP, but no markup.
"""

import html
import re
from typing import Literal, NamedTuple

from transformer_cli.adapters.documents.blocks import InlineKind
from transformer_cli.adapters.terminology.template_code import code_ends
from transformer_cli.text.normalization import is_word

_BRANCH = re.compile(
    r"(?:(?:\{%|<%(?![=@#!])|<\?(?!=)(?:php\b)?)[-+~_]?|\{\{~?(?=\s*(?:[#/^]|else\b)))\s*(?:"
    r"(?P<else>(?:else|elif|else?if|elsif|empty|when|default)\b|\^|(?:\}|end).*?[{:]\s*[-_]?[%?]>\Z)"
    r"|(?P<end>[}/]|end)"
    r"|(?P<begin>#|(?:if|ifchanged|unless|for|foreach|while|case|switch)\b"
    r"|.*?(?:[{:]|\bdo(?:\s*\|[^|]*\|)?)\s*[-_]?[%?]>\Z)"
    r"|(?P<other>(?<=<%)|(?<=<%\s)))",
    re.DOTALL,
)

_TAG = re.compile(r"\{%[-+~_]?\s*(end)?_?(\w{1,50})")


class Code(NamedTuple):
    """A piece of code in a text."""

    start: int
    end: int
    kind: InlineKind | Literal["text"]
    """text: a placeholder in a sentence, such as {{ name }}"""


def find_code(text: str, boundary: str) -> list[Code]:
    """Returns the code in a text, from left to right. boundary: a regular expression for what no code contains.

    A choice that begins or ends inside a word, as in "Hund{% if n > 1 %}e{% endif %}", is one piece of code.
    """
    with_end = {each[2] for each in _TAG.finditer(text) if each[1]}  # such as "comment", for {% endcomment %}
    found: list[tuple[Code, int]] = []  # and the number of tags before it
    open_: list[int] = []  # indices of code in `found` that begins a choice
    last, n_tags = 0, 0
    for start, end in sorted(code_ends(text, boundary).items()):
        if start < last:
            continue  # inside other code
        n_tags += text.count("<", last, start)
        code, last = text[start:end], end
        branch = _BRANCH.match(code)
        tag = _TAG.match(code)
        role = branch.lastgroup if branch else "begin" if tag and tag[2] in with_end else ""
        if role == "begin":
            open_.append(len(found))
        kind: InlineKind | Literal["text"] = "block_end" if role == "else" else "branch"
        found.append((Code(start, end, kind if role else "text" if html.escape(code) == code else ""), n_tags))
        if role == "end" and open_:
            first, n_before = found[index := open_.pop()]
            edges = (first.start, first.end), (start, end)
            is_in_word = any(is_word(text[a - 1 : a]) and is_word(text[b : b + 1]) for a, b in edges)
            if is_in_word and n_before == n_tags:
                found[index:] = [(Code(first.start, end, "branches"), n_tags)]
    return [code for code, _ in found]
