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

    A choice that begins or ends inside a word, as in "Hund{% if n > 1 %}e{% endif %}", is one piece of code. If it
    contains only one tag of an element, its code inside the word is a piece of the sentence, and the rest is text.
    """
    tags = re.compile(rf"(?P<boundary>{boundary})|</?(?=[a-zA-Z])")
    with_end = {each[2] for each in _TAG.finditer(text) if each[1]}  # such as "comment", for {% endcomment %}
    found: list[Code] = []
    open_: list[tuple[int, ...]] = []  # choices: index in `found`, tags that are open before it, the fewest since
    last, n_tags = 0, 0
    for start, end in sorted(code_ends(text, boundary).items()):
        if start < last:
            continue  # inside other code
        for each in tags.finditer(text, last, start):
            n_tags += -1 if each[0].startswith("</") else 1
            now = -len(text) if each["boundary"] else n_tags
            open_[-1:] = [(*begun, min(fewest, now)) for *begun, fewest in open_[-1:]]
        code, last = text[start:end], end
        branch = _BRANCH.match(code)
        tag = _TAG.match(code)
        role = branch.lastgroup if branch else "begin" if tag and tag[2] in with_end else ""
        is_in_word = is_word(text[start - 1 : start]) and is_word(text[end : end + 1])
        kind: InlineKind | Literal["text"] = (
            "block_end" if role == "else" else "inline_choice" if is_in_word else "branch_end"
        )
        if role == "begin":
            open_.append((len(found), n_tags, n_tags))
        elif role == "end" and open_:
            index, n_before, now = open_.pop()
            first = found[index]
            if "inline_choice" in (first.kind, kind) and n_before == n_tags == now:
                start, kind = first.start, "inline_choice"
                del found[index:]
            elif first.kind == "inline_choice":
                kind = "branch_end"  # the parts of a choice stay in order
            open_[-1:] = [(*begun, min(fewest, now)) for *begun, fewest in open_[-1:]]
        found.append(Code(start, end, kind if role else "text" if html.escape(code) == code else ""))
    return found
