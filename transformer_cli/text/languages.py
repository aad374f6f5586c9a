"""Codes and names of languages, and target tokens such as >>fra<< or <2fr>.

A language has codes of two and three letters, and names in English, its own and some other languages. A target
token begins a source sentence and tells a model with several target languages which one to write. Knows no codecs.
"""

import re
from collections.abc import Iterable, Mapping

from transformer_cli.errors import ConfigError
from transformer_cli.system.terminal import first_few

TARGET_TOKEN = re.compile(r">>([^\s<>]+)<<|<2([A-Za-z][A-Za-z_-]*)>")
ANY_LANGUAGE = "xx"  # of a run whose language spaCy does not have
MULTILINGUAL = "mul"  # ISO 639-2: several languages

# For each language: its code in ISO 639-1, if it has one; in ISO 639-3; in ISO 639-2/B, if that differs; its names in
# English, in itself, and in others.
_TABLE = """
af afr Afrikaans Afrikaans; am amh Amharic; ar ara Arabic العربية Arabisch arabe; az aze Azerbaijani;
be bel Belarusian беларуская; bg bul Bulgarian български Bulgarisch; bn ben Bengali বাংলা; bs bos Bosnian bosanski;
ca cat Catalan català Katalanisch; cs ces cze Czech čeština Tschechisch tchèque; cy cym wel Welsh Cymraeg;
da dan Danish dansk Dänisch; de deu ger German Deutsch allemand alemán tedesco;
el ell gre Greek ελληνικά Griechisch grec; en eng English English Englisch anglais inglés inglese; eo epo Esperanto;
es spa Spanish español Spanisch espagnol spagnolo castellano; et est Estonian eesti Estnisch; eu eus baq Basque euskara;
fa fas per Persian فارسی Farsi Persisch; fi fin Finnish suomi Finnisch;
fr fra fre French français Französisch francés francese; ga gle Irish Gaeilge; gl glg Galician galego; gu guj Gujarati;
he heb Hebrew עברית Hebräisch; hi hin Hindi हिन्दी; hr hrv Croatian hrvatski Kroatisch; hsb Upper_Sorbian;
hu hun Hungarian magyar Ungarisch hongrois; hy hye arm Armenian հայերեն; id ind Indonesian Bahasa_Indonesia Indonesia;
is isl ice Icelandic íslenska; it ita Italian italiano Italienisch italien;
ja jpn Japanese 日本語 Japanisch japonais japonés; ka kat geo Georgian ქართული; kk kaz Kazakh; kn kan Kannada;
ko kor Korean 한국어 Koreanisch coréen; ky kir Kyrgyz; la lat Latin Latina Latein latin;
lb ltz Luxembourgish Lëtzebuergesch; lt lit Lithuanian lietuvių Litauisch; lv lav Latvian latviešu Lettisch;
mk mkd mac Macedonian македонски; ml mal Malayalam; mn mon Mongolian; mr mar Marathi; ms msa may Malay Melayu;
my mya bur Burmese; nb nob Norwegian_Bokmål bokmål; ne nep Nepali;
nl nld dut Dutch Nederlands Niederländisch néerlandais; nn nno Norwegian_Nynorsk nynorsk;
no nor Norwegian norsk Norwegisch; pl pol Polish polski Polnisch polonais; ps pus Pashto;
pt por Portuguese português Portugiesisch portugais portugués portoghese; ro ron rum Romanian română Rumänisch roumain;
ru rus Russian русский Russisch russe ruso; si sin Sinhala; sk slk slo Slovak slovenčina Slowakisch;
sl slv Slovenian slovenščina Slowenisch Slovene; sq sqi alb Albanian shqip; sr srp Serbian српски srpski Serbisch;
sv swe Swedish svenska Schwedisch; sw swa Swahili Kiswahili; ta tam Tamil தமிழ்; te tel Telugu;
th tha Thai ไทย Thailändisch; tl tgl Tagalog; tr tur Turkish Türkçe Türkisch turc turco;
uk ukr Ukrainian українська Ukrainisch ukrainien; ur urd Urdu اردو; uz uzb Uzbek;
vi vie Vietnamese Tiếng_Việt Vietnamesisch vietnamien; xh xho Xhosa; yi yid Yiddish; yo yor Yoruba;
zh zho chi Chinese 中文 汉语 漢語 Mandarin Chinesisch chinois chino cinese; zu zul Zulu
"""
# Standard varieties of a macrolanguage, as FLORES, NLLB and NTREX name them, codes of languages without a name above,
# and withdrawn codes.
_SYNONYMS = """
als:sq arb:ar ayr:ay azj:az bod:bo cmn:zh dzo:dz ekk:et fil:tl gaz:om in:id iw:he ji:yi jw:jv khk:mn khm:km kmr:ku
lao:lo lvs:lv mo:ro nb:no npi:ne ory:or pbt:ps pes:fa plt:mg quy:qu swh:sw tib:bo uzn:uz ydd:yi zsm:ms
"""
_ROWS = [row.split() for row in _TABLE.split(";")]
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
