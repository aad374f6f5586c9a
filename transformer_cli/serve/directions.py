"""The runs that a server has loaded, by the languages that they translate from and into. Knows no HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_cli.errors import ConfigError, DataError
from transformer_cli.serve.languages import name_of
from transformer_cli.translator import Translator

AUTO = "auto"


@dataclass(frozen=True)
class Chosen:
    """The run that a request wants."""

    translator: Translator
    source: str
    target: str


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
            {"code": code, "name": name_of(code), "targets": [into for of, into in self._by_pair if of == code]}
            for code in codes
        ]

    def choose(self, source: str, target: str) -> Chosen:
        """Returns the translator for two languages. source: a code, or "auto" if only one leads to the target.

        Raises DataError in LibreTranslate's words, which its clients may look for, and what there is instead.
        """
        known = {code for pair in self._by_pair for code in pair}
        for code in (source, target):
            if code not in known and (code, code is source) != (AUTO, True):
                raise DataError(f"{code} is not supported; this server translates {self}")
        if source == AUTO:
            sources = [of for of, into in self._by_pair if into == target]
            if len(sources) > 1:
                raise DataError(
                    f"source auto: languages are not detected, and {' and '.join(sources)} are translated into "
                    f"{target}; name the source"
                )
            source = sources[0] if sources else AUTO
        if (source, target) not in self._by_pair:
            what = f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)}"
            raise DataError(f"{what} ({source}); this server translates {self}")
        return Chosen(self._by_pair[source, target], source, target)
