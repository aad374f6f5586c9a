"""Codes and names of languages, and target tokens such as >>fra<< or <2fr>.

A language has codes of two and three letters, and names in English, its own and some other languages. A target
token begins a source sentence and tells a model with several target languages which one to write. Knows no codecs.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from transformer_cli.errors import ConfigError
from transformer_cli.system.terminal import first_few

TARGET_TOKEN = re.compile(r">>([^\s<>]+)<<|<2([A-Za-z]+(?:[_-][A-Za-z0-9]+)*)>")
ANY_LANGUAGE = "xx"  # of a run whose language spaCy does not have
MULTILINGUAL = "mul"  # ISO 639-2: several languages

# On each line: the code of a language in ISO 639-1, if it has one; in ISO 639-3; in ISO 639-2/B, if that differs; its
# names in English, in itself, and in others.
_TABLE = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
# Standard varieties of a macrolanguage, as FLORES, NLLB and NTREX name them, codes of languages without a name above,
# and withdrawn codes.
_SYNONYMS = """
als:sq arb:ar ayr:ay azj:az bod:bo cmn:zh dzo:dz ekk:et fil:tl gaz:om in:id iw:he ji:yi jw:jv khk:mn khm:km kmr:ku
lao:lo lvs:lv mo:ro nb:no npi:ne ory:or pbt:ps pes:fa plt:mg quy:qu swh:sw tib:bo uzn:uz ydd:yi zsm:ms
"""
_ROWS = [row.split() for row in _TABLE.splitlines()]
LANGUAGE_NAMES = {row[0]: next(each for each in row if not each.islower()).replace("_", " ") for row in _ROWS}
"""code → English name"""
_OWN_NAMES = {row[0]: " ".join(row[row.index(LANGUAGE_NAMES[row[0]].replace(" ", "_")) + 1 :][:1]) for row in _ROWS}
_CODES = {name.casefold().replace("_", " "): row[0] for row in _ROWS for name in row}
_SYNONYM_OF = dict(each.split(":") for each in _SYNONYMS.split())
_CODES_AND_SYNONYMS = {name: _SYNONYM_OF.get(code, code) for name, code in _CODES.items()} | _SYNONYM_OF
# Further codes of ISO 639-1, and some of ISO 639-3.
_FURTHER_CODES = """
aa ab ae ak an as av ay ba bh bi bm bo br ce ch co cr cu cv dv dz ee ff fj fo fy gd gn gv ha ho ht hz ia ie ig ii ik
io iu jv kg ki kj kl km kr ks ku kv kw lg li ln lo lu mg mh mi mt na nd ng nr nv ny oc oj om or os pa pi qu rm rn rw
sa sc sd se sg sm sn so ss st su tg ti tk tn to ts tt tw ty ug ve vo wa wo za ast ceb dsb fil fur gsw nds
"""
_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{2,8})*")
_REGION_START = re.compile(r"[(\[,–-]")  # German (Germany)


def language_code(text: str) -> str | None:
    """Returns the shortest code of the language that a code or a name stands for; None for an unknown name.

    For example, de for de, deu, de_DE, deu_Latn, German, German (Germany) and Deutsch, and ar for arb_Arab. A code that
    is not in the list is returned without script and region: tlh for tlh-Latn.
    """
    name = text.strip().casefold()
    if tag := _TAG.fullmatch(name):
        return _CODES_AND_SYNONYMS.get(tag[1]) or _CODES_AND_SYNONYMS.get(name, tag[1])
    found = _CODES_AND_SYNONYMS.get(name)
    return found or _CODES_AND_SYNONYMS.get(_REGION_START.split(name, maxsplit=1)[0].rstrip())


def is_language_code(text: str) -> bool:
    """Whether a text is a language's code: de, deu, de_AT, gsw; also a rare one, with a script or region: bar_Latn."""
    tag = _TAG.fullmatch(text)
    known = *LANGUAGE_NAMES, *_FURTHER_CODES.split()
    return tag is not None and (tag[0] != tag[1] or language_code(text) in known)


def is_other_language(named: str, own: str) -> bool:
    """Whether `named` is another language than `own`. Regions and scripts may differ: en_GB, sr@latin."""
    name = re.split("[@.]", named)[0]
    codes = (language_code(each) or each.lower() for each in (name, own))
    return bool(name and own) and own not in (ANY_LANGUAGE, MULTILINGUAL) and len({*codes}) > 1


def is_own_name(text: str, code: str) -> bool:
    """Whether a text is the name of a language in itself, or its code: for fr, "Français (Canada)" or FR."""
    own, name = language_code(code) or "", _REGION_START.split(text.strip(), maxsplit=1)[0].strip().casefold()
    return name != "" and name in (own, _OWN_NAMES.get(own, "").replace("_", " ").casefold())


def find_target_languages(tokens: Iterable[str]) -> dict[str, str]:
    """Returns the target tokens in a vocabulary by the `short_code` of their languages, such as {"fr": ">>fra<<"}."""
    found = ((TARGET_TOKEN.fullmatch(token), token) for token in tokens)
    return {short_code(match[1] or match[2]): token for match, token in found if match}


def target_token_end(line: str) -> int:
    """Returns the length of the target token with which a line begins; 0 if it has none."""
    found = TARGET_TOKEN.match(line)
    return found.end() if found else 0


def target_token_of(language: str, targets: Mapping[str, str]) -> str:
    """Returns the target token of a language, given by a code of two or three letters. Raises ConfigError."""
    tokens = {code.lower().replace("-", "_"): token for code, token in targets.items()}
    token = tokens.get(short_code(language.lower()).replace("-", "_"))
    if token is None:
        if not targets:
            raise ConfigError(f"to: {language}: the model has only one target language; leave it out")
        some = first_few(sorted(targets))
        raise ConfigError(f"{language} is not a target language of the model; choose one of {some}")
    return token


def short_code(code: str) -> str:
    """Returns a code with a language of two letters, if ISO 639 has it; script and region stay: pt_br for por_br.

    arb stays arb: a model may have tokens for arb and for ara.
    """
    main = re.split("[-_]", code, maxsplit=1)[0]
    return _CODES.get(main, main) + code[len(main) :]
