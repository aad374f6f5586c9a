"""Which languages a server's runs translate from and into, what they are called, and which one a text is in.

Owns py3langid, with adapters/corpora/cleaning.py. Knows no HTTP.
"""

import math
from collections.abc import Collection, Sequence
from datetime import datetime, timezone

import py3langid

from transformer_cli.errors import ConfigError, DataError
from transformer_cli.text.languages import LANGUAGE_NAMES
from transformer_cli.text.normalization import primary_subtag
from transformer_cli.translate import Translator

AUTO = "auto"
MAX_DETECT_CHARS = 500  # characters of a text, by which its language is known


class Directions:
    """Translators, one for each direction."""

    def __init__(self, translators: Sequence[Translator]) -> None:
        """Raises ConfigError if two of them translate from and into the same languages."""
        self._since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._by_pair: dict[tuple[str, str], Translator] = {}
        into_each = [
            each.for_target(target) for each in translators for target in each.run.codecs.target_languages or (None,)
        ]
        for translator in into_each:
            data = translator.run.config.data
            other = self._by_pair.setdefault((data.source, data.output_language), translator)
            if other is not translator:
                raise ConfigError(
                    f"--run: {other.run.folder} and {translator.run.folder} both translate from {data.source} into "
                    f"{data.output_language}; a request could not say which one it wants, so give one of them"
                )
        self.detect("")  # reads py3langid's model, for which no client shall wait

    def models(self) -> list[dict[str, str]]:
        """Returns what translates, and since when."""
        return [
            {"source": of, "target": into, "run": each.run.folder.name, "checkpoint": each.checkpoints[0],
             "since": self._since}
            for (of, into), each in self._by_pair.items()
        ]  # fmt: skip

    def languages(self) -> list[dict[str, object]]:
        """Returns each language with its name, and the ones into which it is translated; what is not an export can be
        looked into.
        """
        codes = dict.fromkeys(code for pair in self._by_pair for code in pair)
        pairs_of = {code: [pair for pair in self._by_pair if pair[0] == code] for code in codes}
        return [
            {
                "code": code,
                "name": LANGUAGE_NAMES.get(code, code),
                "targets": [into for _, into in pairs],
                "inspectable": [pair[1] for pair in pairs if not self._by_pair[pair].run.exported],
            }
            for code, pairs in pairs_of.items()
        ]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """Returns the source languages that a text may be in (of those that are translated into target, if given).

        Each with its probability in percent, the likeliest first; a language that py3langid does not know has 0.
        """
        sources = list(dict.fromkeys(of for of, into in self._by_pair if target in (None, into)))
        return [(of, 100.0) for of in sources] if len(sources) < 2 else _probabilities(text[:MAX_DETECT_CHARS], sources)

    def choose(self, source: str, target: str, text: str) -> tuple[Translator, str, float]:
        """Returns the translator for two languages, the code of the source, and how sure that is, in percent.

        source: a code, or "auto" for the language that the text seems to be in. A code in small letters will do, and
        one with a region (de-de) where only the language is known. Raises DataError in LibreTranslate's words.
        """
        known = {code.lower(): code for pair in self._by_pair for code in pair}
        named = [source, target]
        for place, code in enumerate(named):
            if not (place == 0 and code == AUTO):
                found = known.get(code.lower()) or known.get(primary_subtag(code.lower()))
                if found is None:
                    raise DataError(f"{code[:50]} is not supported")
                named[place] = found
        source, target = named
        confidence = 100.0
        if source == AUTO:
            source, confidence = (self.detect(text, target) or self.detect(text))[0]
        if (source, target) not in self._by_pair:
            of, into = LANGUAGE_NAMES.get(source, source), LANGUAGE_NAMES.get(target, target)
            raise DataError(f"{into} ({target}) is not available as a target language from {of} ({source})")
        return self._by_pair[source, target], source, confidence


def _probabilities(text: str, languages: Collection[str]) -> list[tuple[str, float]]:
    """Returns the probability of each language, in percent, if the text is in one of them; the likeliest first.

    py3langid gives log-probabilities of features as if they were independent. Divided by √length, they make shares that
    are not all 0 or 100, as py3langid's own `norm_probs` does.
    """
    scores = dict.fromkeys(languages, -math.inf)
    scores.update({code: float(score) for code, score in py3langid.rank(text) if code in scores})
    best, scale = max(scores.values()), math.sqrt(len(text.encode()) or 1)
    weights = {code: math.exp((score - best) / scale) if score > -math.inf else 0.0 for code, score in scores.items()}
    total = sum(weights.values()) or 1.0
    shares = [(code, round(100 * weight / total, 1)) for code, weight in weights.items()]
    return sorted(shares, key=lambda pair: -pair[1])
