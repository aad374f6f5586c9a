"""Rewrites syntax that CommonMark lacks as syntax that it has, or as blank lines, so that markdown-it finds the blocks.

Knows containers, admonitions, footnotes, definitions, MyST's directives, math, and MDX. The text stays in its lines.
"""

import re
from collections import Counter

from transformer_cli.text.lines import has_letter

_DIRECTIVE = (  # of MyST, whose fences hold text
    r"\{(?:note|tip|hint|important|warning|caution|danger|attention|error|seealso|admonition|dropdown|card|grid|sidebar"
    r"|margin|epigraph|tab-set|tab-item|exercise|solution|todo)\b[\w-]*\}"
)
_BRACES = r"\{[^{}]*\}"
for _ in range(4):  # how deep they may be nested
    _BRACES = rf"\{{[^{{}}]*(?:{_BRACES}[^{{}}]*)*\}}"
JSX = (
    r"</?(?P<name>[a-zA-Z][\w.:-]*)(?=[\s/>])[^<>{}\"']*"
    rf"(?:(?:{_BRACES}|\"[^\"<]*\"|'[^'<]*')[^<>{{}}\"']*)*>|</?>|{_BRACES}"
)
_SYNTAX = (
    r"^(?P<before>[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?:"
    r"(?P<fence>`{3,}|~{3,}|:{3,})(?=[^`\n]*$)[ \t]*"
    rf"(?P<info>(?P<directive>{_DIRECTIVE})?[\w.-]*[ \t]*\[?(?P<label>[^\[\]{{\n]*).*)"
    r"(?:\n[ \t>]*:[\w-]+:.*)*"  # options of a directive
    r"|(?P<item>!!!(?=[ \t])|\?{3}\+?(?=[ \t])|===[!+]?(?=[ \t]+\"))(?:[ \t]+[\w-]+)*"
    r"(?:[ \t]+\"(?P<title>[^\"\n]*)\")?[ \t]*$"
    r"|(?:\[\^[^\]\s]{1,99}\]:|:)[ \t]+(?P<text>\S.*)"
    r"|\$\$(?!.*\$\$)[^$]*(?:\$[^$]+)*\$\$.*"
)
_MODULE = (
    r"(?:import\s+[\w{*\"']|export\s+(?:const|let|var|default|function|async|class|\{|\*))"
    rf"(?:{_BRACES}|\n(?![ \t]*\n)|.)*"
)
_SYNTAX_OF = {
    False: re.compile(rf"{_SYNTAX}|(?<![^\n])(?=.*[\"']){_MODULE})", re.MULTILINE),
    True: re.compile(rf"{_SYNTAX}|(?<![^\n]){_MODULE}|(?:(?:{JSX})[ \t]*)+$)", re.MULTILINE),
}


def as_commonmark(text: str, is_mdx: bool) -> str:
    """Returns a text with the same number of lines. text: with line feeds at their ends."""
    out, position, opened = "", 0, Counter[str]()  # fences of directives
    while found := _SYNTAX_OF[is_mdx].search(text, position):
        (start, end), known, fence = found.span(), found["before"], found["fence"] or ""
        has_info = bool(fence and found["info"].strip())
        if found["text"]:
            known += f"-   {found['text']}"
        elif found["item"]:
            known += f"-   # {found['title'] or ''}"
        elif fence and (fence[0] == ":" or found["directive"] or (opened[fence] and not has_info)):
            opened[fence] += 1 if has_info else -1
            known += f"# {found['label']}" if has_letter(found["label"]) else ""
        elif fence:
            closing = re.compile(rf"^[ \t>]*{fence}{fence[0]}*[ \t]*$", re.MULTILINE).search(text, end)
            end = closing.end() if closing else len(text)
            known = text[start:end]
        out += text[position:start] + known + "\n" * (text.count("\n", start, end) - known.count("\n"))
        position = end
    return out + text[position:]  # of math, modules and JSX, nothing is left
