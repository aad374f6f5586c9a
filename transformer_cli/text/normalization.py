"""Normalises lines before a codec cuts them into tokens. Knows no tokens.

`prepare`, training, evaluation, scores, translation and the search for overlaps all normalise text here. A line gets
Unicode's composed form (NFC) and loses the white space at its ends. Characters unknown to the codec are replaced by an
equivalent: any white space by a space, invisible characters by nothing, others by their compatible form (NFKC), such as
fi for ﬁ. Unknown symbols become placeholders, which are inserted into the translation afterwards. A line in capitals is
truecased.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, filterfalse, groupby

from transformer_cli.text.languages import language_code, target_token_end

# Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt, version 16): invisible characters such as
# soft hyphens, joiners, marks of direction, selectors of variants and byte order marks.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS = "\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f"  # without white space
_IGNORED = re.compile(f"[{IGNORABLE}{_CONTROLS}]")
WORD_BREAK = "\u200b"
_NO_SPACE_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1980-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
_WORD_BREAKS = re.compile(  # between words of Thai, Khmer, …
    f"(?<=[{_NO_SPACE_SCRIPTS}])\u200b+|(?<!\u200b)\u200b+(?=[{_NO_SPACE_SCRIPTS}])"
)
_SPACELESS = re.compile(f"[{_NO_SPACE_SCRIPTS}\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]")

# Unicode's blocks of bullets, arrows, signs and pictures, except signs that are used like letters (©, °, ℃).
_SYMBOL = (
    "\u2022\u2023\u203b\u203c\u2042\u2043\u2049\u204c\u204d\u2190-\u21ff\u2219\u2300-\u23ff\u2460-\u27bf\u27f0-\u27ff"
    "\u2900-\u297f\u2b00-\u2bff\u3012\u3013\u3020\u3030\u3036\u303d\u3297\u3299\uffe8-\uffee"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001fbff"
)
_CIRCLED = "\u24b6-\u24e9\U0001f130-\U0001f149"  # letters; several in a row are a word, not symbols: ⓗⓤⓝⓓ
SENTINEL = "\ufdd0"  # a noncharacter, which stands for a protected span while its line is normalised
_MODIFIERS = "(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|[\U000e0020-\U000e007f])*"
_VISIBLE = f"[^\\s{IGNORABLE}{_CONTROLS}]"  # a middle dot next to one is part of a word
_ONE_SYMBOL = (  # a flag of two letters, a keycap, or a symbol with its modifiers; U+200D joins pictures
    f"(?:[\U0001f1e6-\U0001f1ff]{{1,2}}|[0-9#*]\ufe0f?\u20e3|[\u00a9\u00ae\u2122\u2139]\ufe0f"
    f"|(?<!{_VISIBLE})\u00b7(?!{_VISIBLE})|{SENTINEL}"
    f"|(?![{_CIRCLED}][\\w{_CIRCLED}]|(?<=[\\w{_CIRCLED}])[{_CIRCLED}])[{_SYMBOL}]{_MODIFIERS}"
    f"(?:\u200d[{_SYMBOL}]{_MODIFIERS})*)"
)
_SYMBOLS = re.compile(rf"(?P<before>(?<!\s)\s*)(?P<symbols>{_ONE_SYMBOL}(?:\s*{_ONE_SYMBOL})*)(?P<after>\s*)")
_ASCII_FORMS = {  # of hyphens, quotes and the slash of fractions, for which NFKC has no equivalent
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys((0xB4, *range(0x2018, 0x201C)), "'"),
    **dict.fromkeys((0xAB, 0xBB, *range(0x201C, 0x2020)), '"'),
    0x2044: "/",
}
_WORD = re.compile(r"[^\W\d_]+")
SORT_MARKS_FROM = 500  # characters; shorter texts are fast to normalise, even if they consist of combining marks


@dataclass(frozen=True)
class Placeholder:
    """Text that is copied into the translation unchanged, once, next to the translation of its neighbours."""

    offset: int
    """where it stood, in characters of the normalised text, which does not contain it"""
    text: str
    before: str = ""
    """the white space before it in the source"""
    after: str = ""
    """the white space after it"""
    spans: tuple[tuple[int, int, int], ...] = ()
    """for each protected span in it: start and end in the line, and start in `text`"""


@dataclass(frozen=True)
class NormalizedText:
    """A normalised line."""

    text: str = ""
    """what is cut into tokens"""
    placeholders: tuple[Placeholder, ...] = ()
    """the unknown symbols and the protected spans of the line, from left to right"""
    all_caps: bool = False
    """whether the line was in capitals; then its translation will be, too"""


@dataclass(frozen=True)
class Normalizer:
    """Normalises lines for one codec."""

    is_known: Callable[[str], bool]
    """whether the codec knows a character"""
    language: str
    lowercase: bool
    """whether to lower-case text here; otherwise the codec may do so after cutting it into words"""
    word_cost: Callable[[str], tuple[int, int]] | None
    """(number of a word's pieces, their rarity), by which truecasing chooses; None if the codec ignores case"""

    def normalize(self, line: str, spans: Sequence[tuple[int, int]] = ()) -> NormalizedText:
        """Returns the normalised line.

        spans: protected spans, from left to right, which become placeholders. For example, "  Am\u00a0Strand 😀."
        becomes "Am Strand." with the placeholder 😀 at offset 9, if the codec knows neither U+00A0 nor 😀.
        """
        text, placeholders = nfc_stripped(with_sentinels(line, spans)), list[Placeholder]()
        if self.lowercase:
            text = lower(text, self.language)
        unknown = "".join(filterfalse(self.is_known, set(text)))
        if spans or not (unknown.isascii() and unknown.isprintable()):
            text, placeholders = self._replace_unknown(text)
            placeholders = _fill_sentinels(placeholders, line, spans)
        if self.word_cost and is_all_caps(text):
            return NormalizedText(self._truecase(text, self.word_cost), tuple(placeholders), all_caps=True)
        return NormalizedText(text, tuple(placeholders))

    def _replace_unknown(self, text: str) -> tuple[str, list[Placeholder]]:
        """Turn unknown symbols into placeholders, and replace other unknown characters by equivalents."""
        parts, length, placeholders, last = list[str](), 0, list[Placeholder](), 0

        def add(part: str) -> None:
            nonlocal length
            parts.extend([part] if part else [])
            length += len(part)

        for found in _SYMBOLS.finditer(text):
            symbols = _IGNORED.sub("", found["symbols"]).replace(" ", "")
            if SENTINEL not in symbols and all(map(self.is_known, symbols)):
                continue
            add(self._with_equivalents(text[last : found.start()]))
            last, preceding = found.end(), parts[-1][-1] if parts else ""
            each = Placeholder(length, found["symbols"], found["before"], found["after"])
            following = self._with_equivalents(text[last : last + 1])[:1]
            space = joining_space(preceding, each, following) or " " * (is_word(preceding) and is_word(following))
            if not preceding or is_spaceless(preceding) or is_spaceless(following):
                space = space if preceding and each.before and each.after else ""
            if each.before or not is_word(preceding):  # else it is attached to the word before it
                each = replace(each, offset=length + len(space))
            placeholders.append(each)
            add(space)
        add(self._with_equivalents(text[last:]))
        whole = "".join(parts).rstrip()
        start = len(whole) - len(whole.lstrip())  # invisible characters may have stood around it
        offsets = [min(max(each.offset - start, 0), len(whole) - start) for each in placeholders]
        return whole[start:], [replace(each, offset=offset) for each, offset in zip(placeholders, offsets, strict=True)]

    def _with_equivalents(self, text: str) -> str:
        """Returns a text in which unknown characters are replaced by equivalents."""
        if not self.is_known(WORD_BREAK):
            text = _WORD_BREAKS.sub(" ", text)
        parts = [""]
        for char in text:
            form = char if self.is_known(char) else _equivalent(char)
            is_figure = form[:1].isdecimal() and not char.isdecimal()  # 2½ is 2 1/2, not 21/2
            parts.append(f" {form}" if is_figure and parts[-1][-1:].isdecimal() else form)
        result = nfc("".join(parts))
        return lower(result, self.language) if self.lowercase else result

    def _truecase(self, text: str, word_cost: Callable[[str], tuple[int, int]]) -> str:
        """Returns a text in capitals with each word in the case that costs the codec least: USA, Hund or läuft."""

        def cased(found: re.Match[str]) -> str:
            word = found[0]
            if found.start() < first:
                return word  # of the target token
            small = lower(word, self.language)
            choices = [word, small, word[0] + small[1:]]
            if found.start() == first:  # if costs are equal, a sentence begins with a capital
                return min(reversed(choices), key=lambda choice: word_cost(choice)[0])
            return min(choices, key=word_cost)

        first = next(_WORD.finditer(text, target_token_end(text))).start()
        return _WORD.sub(cased, text)


def _equivalent(char: str) -> str:
    """Returns the equivalent of an unknown character, "" for an invisible one; the character itself if it has none."""
    if char.isspace() or _IGNORED.match(char):
        return " " * char.isspace()
    form = unicodedata.normalize("NFKC", char)
    return (char if form.startswith(" ") else form).translate(_ASCII_FORMS)  # ´ is a space and a combining mark in NFKC


def with_sentinels(line: str, spans: Sequence[tuple[int, int]]) -> str:
    """Returns a line with SENTINEL in place of each of these spans, which are given from left to right."""
    bounds = [0, *chain.from_iterable(spans), len(line)]  # of the text between the spans
    return SENTINEL.join(line[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))


def _fill_sentinels(
    placeholders: Sequence[Placeholder], line: str, spans: Sequence[tuple[int, int]]
) -> list[Placeholder]:
    """Returns placeholders in which the protected spans of the line replace their sentinels."""
    left = iter(spans)

    def filled(each: Placeholder) -> Placeholder:
        if not spans or SENTINEL not in each.text:
            return each
        text, places = "", []
        for part in re.split(f"({SENTINEL})", each.text):
            if part == SENTINEL:
                start, end = next(left)
                places.append((start, end, len(text)))
                part = line[start:end]
            text += part
        return replace(each, text=text, spans=tuple(places))

    return [filled(each) for each in placeholders]


def nfc_stripped(line: str) -> str:
    """Returns a line in Unicode's composed form (NFC), without the white space at its ends."""
    return nfc(line.strip())


def nfc(text: str) -> str:
    """Returns a text in Unicode's composed form (NFC).

    Python sorts the n marks on one letter in n² steps, so in a long text they are sorted here first.
    """
    if len(text) > SORT_MARKS_FROM and not text.isascii():
        apart = chain.from_iterable(unicodedata.normalize("NFD", char) for char in text)
        runs = groupby(apart, key=lambda char: unicodedata.combining(char) > 0)
        text = "".join(
            chain.from_iterable(sorted(run, key=unicodedata.combining) if are_marks else run for are_marks, run in runs)
        )
    return unicodedata.normalize("NFC", text)


def surrounding_space(line: str) -> tuple[str, str]:
    """Returns the white space at the beginning and at the end of a line; for a blank line, (line, "")."""
    start = len(line) - len(line.lstrip())
    return line[:start], line[max(start, len(line.rstrip())) :]


def joining_space(text: str, placeholder: Placeholder, following: str) -> str:
    """Returns the space that remains where a placeholder is taken out of a text.

    text: before it; following: after it. For example, "" of "am Strand 😀." and " " of "ein 😀 Hund".
    """
    if not (text and following and (placeholder.before or placeholder.after)):
        return ""
    return " " if placeholder.after or is_word(following[0]) else ""


def is_word(char: str) -> bool:
    """Whether a character belongs to a word: a letter, a digit, a mark on one, or a joiner; false for ""."""
    return char.isalnum() or (char != "" and (char in "\u200c\u200d" or unicodedata.category(char)[0] == "M"))


def is_spaceless(char: str) -> bool:
    """Whether a character belongs to a script without spaces between words, such as Chinese or Thai."""
    return _SPACELESS.match(char) is not None


def has_word_breaks(char: str) -> bool:
    """Whether a character belongs to a script that may separate words by WORD_BREAK, such as Thai or Khmer."""
    return re.match(f"[{_NO_SPACE_SCRIPTS}]", char) is not None


def is_ignored(char: str) -> bool:
    """Whether a character is removed if the codec does not know it."""
    return _IGNORED.match(char) is not None


def is_all_caps(text: str) -> bool:
    """Whether a text of several words, or of one and a colon, is in capitals; ß, which often has none, is ignored.

    False for a Japanese sentence with acronyms: most of its letters have no case. A target token does not count.
    """
    text = text[target_token_end(text) :]
    if not text.replace("ß", "").isupper():
        return False
    words = [
        word for word in _WORD.findall(text) if len(word) > 1 and all(char.upper() != char.lower() for char in word)
    ]
    is_long_enough = len(words) > (0 if text.endswith(":") else 1)
    return is_long_enough and 2 * sum(map(len, words)) > sum(map(str.isalpha, text))


def lower(text: str, language: str) -> str:
    """Returns a text in lower case, by the rules of Unicode's SpecialCasing.txt for Turkish, Azeri and Lithuanian."""
    code = primary_subtag(language)
    if code in ("tr", "az"):
        return text.replace("İ", "i").replace("I\u0307", "i").replace("I", "ı").lower()
    if code == "lt":  # the dot of an i stays under an accent
        text = re.sub("[ÌÍĨ]", lambda found: unicodedata.normalize("NFD", found[0]), text)
        text = re.sub("([IJĮ])(?=[\u0300-\u0314\u033d-\u0344])", "\\1\u0307", text)
    return text.lower()


def upper(text: str, language: str) -> str:
    """Returns a text in capitals, by the same rules as `lower`."""
    code = primary_subtag(language)
    if code in ("tr", "az"):
        return text.replace("i", "İ").upper()
    if code == "lt":
        text = re.sub("(?<=[ijį])\u0307", "", text)
    return nfc(text.upper())


@lru_cache  # `lower` calls it for each word
def primary_subtag(language: str) -> str:
    """Returns a code without script and region, in two letters if ISO 639 has them: zh for zh-CN, zho or cmn."""
    return language_code(language) or language.lower()
