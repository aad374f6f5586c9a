"""The English names of languages, by their codes in ISO 639."""

_LIST = """
af:Afrikaans am:Amharic ar:Arabic az:Azerbaijani be:Belarusian bg:Bulgarian bn:Bengali bs:Bosnian ca:Catalan
cs:Czech cy:Welsh da:Danish de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian
fi:Finnish fr:French ga:Irish gl:Galician gu:Gujarati he:Hebrew hi:Hindi hr:Croatian hsb:Upper_Sorbian hu:Hungarian
hy:Armenian id:Indonesian is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh kn:Kannada ko:Korean ky:Kyrgyz
la:Latin lb:Luxembourgish lt:Lithuanian lv:Latvian mk:Macedonian ml:Malayalam mr:Marathi ms:Malay my:Burmese
nb:Norwegian_Bokmål ne:Nepali nl:Dutch nn:Norwegian_Nynorsk no:Norwegian pl:Polish ps:Pashto pt:Portuguese
ro:Romanian ru:Russian si:Sinhala sk:Slovak sl:Slovenian sq:Albanian sr:Serbian sv:Swedish sw:Swahili ta:Tamil
te:Telugu th:Thai tl:Tagalog tr:Turkish uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese xh:Xhosa yo:Yoruba zh:Chinese
zu:Zulu
"""
NAMES = {code: name.replace("_", " ") for code, name in (pair.split(":") for pair in _LIST.split())}


def name_of(code: str) -> str:
    """Returns a language's name, such as German for de; of a code that is not in the list, the code itself."""
    return NAMES.get(code, code)
