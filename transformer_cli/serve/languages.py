"""Which languages a server's runs translate from and into, and what they are called. Knows no HTTP."""

from collections.abc import Sequence

from transformer_cli.errors import ConfigError, DataError
from transformer_cli.translator import Translator

AUTO = "auto"

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


class Directions:
    """Translators, one for each direction."""

    def __init__(self, translators: Sequence[Translator]) -> None:
        """Raises ConfigError if two of them translate from and into the same languages."""
        self._by_pair: dict[tuple[str, str], Translator] = {}
        for translator in translators:
            data = translator.run.config.data
            other = self._by_pair.setdefault((data.source, data.target), translator)
            if other is not translator:
                raise ConfigError(
                    f"--run: {other.run.folder} and {translator.run.folder} both translate from {data.source} into "
                    f"{data.target}; a request could not say which one it wants, so give one of them"
                )

    def __str__(self) -> str:
        return ", ".join(f"{source}→{target}" for source, target in self._by_pair)

    def languages(self) -> list[dict[str, object]]:
        """Returns each language with its name, and the languages into which it is translated."""
        codes = dict.fromkeys(code for pair in self._by_pair for code in pair)
        return [
            {"code": code, "name": NAMES.get(code, code), "targets": [into for of, into in self._by_pair if of == code]}
            for code in codes
        ]

    def only_source(self, target: str | None = None) -> str:
        """Returns the one language that is translated (into target, if that is given). Raises DataError."""
        sources = list(dict.fromkeys(of for of, into in self._by_pair if target in (None, into)))
        if len(sources) > 1:
            into = "here" if target is None else f"into {target}"
            raise DataError(
                f"languages are not detected, and {' and '.join(sources)} are translated {into}; name the source"
            )
        return sources[0] if sources else AUTO

    def choose(self, source: str, target: str) -> tuple[Translator, str]:
        """Returns the translator for two languages, and the code of the source.

        source: a code, or "auto" if only one leads to the target. Raises DataError in LibreTranslate's words, which its
        clients may look for, and what there is instead.
        """
        known = {code for pair in self._by_pair for code in pair}
        for code in [target] if source == AUTO else [source, target]:
            if code not in known:
                raise DataError(f"{code[:50]} is not supported; this server translates {self}")
        if source == AUTO:
            source = self.only_source(target)
        if (source, target) not in self._by_pair:
            of, into = NAMES.get(source, source), NAMES.get(target, target)
            what = f"{into} ({target}) is not available as a target language from {of} ({source})"
            raise DataError(f"{what}; this server translates {self}")
        return self._by_pair[source, target], source
