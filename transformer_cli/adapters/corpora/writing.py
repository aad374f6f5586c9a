"""Whether text is written as its language usually is: in which script, and with which accented letters."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from transformer_cli.adapters.corpora.formats import script_and_region
from transformer_cli.text.languages import language_code
from transformer_cli.text.normalization import nfc

MIN_LETTERS = 20  # that tell two scripts apart; fewer are not judged
MIN_WORDS = 2_000  # a text of so many has at least one of the usual letters of its language
MAX_OTHER_CHINESE, MAX_OTHER_LETTERS = 0.2, 0.5  # shares of letters of another script; the latter has names and terms

_CHINESE_CODECS = {"hans": "gb2312", "hant": "big5"}
_SCRIPTS = """
latn:LATIN cyrl:CYRILLIC arab:ARABIC hebr:HEBREW grek:GREEK armn:ARMENIAN deva:DEVANAGARI guru:GURMUKHI beng:BENGALI
mong:MONGOLIAN tfng:TIFINAGH
"""
_SCRIPT_NAMES = dict(each.split(":") for each in _SCRIPTS.split())  # ISO 15924 → first word of its letters in Unicode
_LETTERS = """
ca:àéèíò cs:áéíěřščž da:æøå de:äöüß el:άέήίόύώ es:áéíóúñ et:äõöü fi:äö fr:àâçéèê hr:čćšžđ hu:áéíóöőüű is:áðíóöþ
it:àèéìòù lt:ąčėįšųž lv:āčēīņšū nb:æøå nn:æøå no:æøå pl:ąćęłńóśżź pt:áãâçéíó ro:ăâîșşțţ sk:áčéíľšťýž sl:čšž sq:çë sv:åäö
tr:çğıöşü vi:ăâđêôơư
"""
_USUAL_LETTERS = dict(each.split(":") for each in _LETTERS.split())


def other_script(lines: Sequence[str], language: str) -> str | None:
    """Returns how much of a text is in another script than its language names, or None.

    Chinese characters tell the scripts apart if only one of GB 2312 (simplified) and Big5 (traditional) has them.
    """
    script = script_and_region(language.lower().replace("_", "-")).get("script", "")
    letters = Counter(filter(str.isalpha, chain.from_iterable(lines)))
    if script in _CHINESE_CODECS:
        known = {each: [_can_encode(each, codec) for codec in _CHINESE_CODECS.values()] for each in letters}
        is_own = {each: found[script == "hant"] for each, found in known.items() if each >= "一" and sum(found) == 1}
    elif script in _SCRIPT_NAMES:
        is_own = {each: unicodedata.name(each, "").startswith(_SCRIPT_NAMES[script]) for each in letters}
    else:
        return None
    n_all = sum(letters[each] for each in is_own)
    others = Counter({each: letters[each] for each, own in is_own.items() if not own})
    max_share = MAX_OTHER_CHINESE if script in _CHINESE_CODECS else MAX_OTHER_LETTERS
    if n_all < MIN_LETTERS or others.total() <= max_share * n_all:
        return None
    return f"{others.total() / n_all:.0%} of the letters, such as {' '.join(each for each, _ in others.most_common(3))}"


def lost_letters(lines: Sequence[str], language: str) -> str | None:
    """Returns which usual letters of its language a text of at least MIN_WORDS words lacks, or None."""
    usual = _USUAL_LETTERS.get(language_code(language) or "")
    if usual is None or script_and_region(language.lower().replace("_", "-")).get("script", "latn") != "latn":
        return None
    n_words = sum(len(line.split()) for line in lines)
    n_usual = sum(map({*usual}.__contains__, nfc("\n".join(lines)).lower()))
    if n_words < MIN_WORDS or n_usual >= n_words / MIN_WORDS:
        return None
    return f"{n_usual or 'none'} of the letters {' '.join(usual)} in {n_words:,} words"


def _can_encode(letter: str, codec: str) -> bool:
    try:
        return bool(letter.encode(codec))
    except UnicodeEncodeError:
        return False
