"""The languages that a server translates from and into, and detection of a text's language.

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
MAX_DETECT_CHARS = 500  # of a text, to detect its language


class Directions:
    """Translators by their pair of languages, without scores and attention."""

    def __init__(self, translators: Sequence[Translator]) -> None:
        """Raises ConfigError if two translators have the same languages."""
        self._since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._by_pair: dict[tuple[str, str], Translator] = {}
        into_each = [one.for_target(code) for one in translators for code in one.run.codecs.target_languages or (None,)]
        for each in into_each:
            # here, as it takes as long as all else that is done with a short request
            translator = each.with_options(return_scores=False, return_attention=False)
            data = translator.run.config.data
            source, target = data.input_language, data.output_language
            other = self._by_pair.setdefault((source, target), translator)
            if other is not translator:
                raise ConfigError(
                    f"--run: {other.run.folder} and {translator.run.folder} both translate from {source} into "
                    f"{target}; a request could not say which one it wants, so give one of them"
                )
        self.detect("")  # loads py3langid's model, so that no client has to wait for it

    def models(self) -> list[dict[str, str]]:
        """Returns each pair of languages with its run and checkpoint, and when these were loaded."""
        return [
            {"source": source, "target": target, "run": each.run.folder.name, "checkpoint": each.checkpoints[0],
             "since": self._since}
            for (source, target), each in self._by_pair.items()
        ]  # fmt: skip

    def languages(self) -> list[dict[str, object]]:
        """Returns each language, its targets, and the targets whose model can be inspected: all but exported ones."""
        codes = dict.fromkeys(code for pair in self._by_pair for code in pair)
        pairs_of = {code: [pair for pair in self._by_pair if pair[0] == code] for code in codes}
        return [
            {
                "code": code,
                "name": LANGUAGE_NAMES.get(code, code),
                "targets": [target for _, target in pairs],
                "inspectable": [pair[1] for pair in pairs if not self._by_pair[pair].run.exported],
            }
            for code, pairs in pairs_of.items()
        ]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """Returns the source languages with the probability, in percent, that a text is in them; the likeliest first.

        target: only languages that are translated into it (None: all). A language that py3langid does not know has 0.
        """
        sources = list(dict.fromkeys(source for source, into in self._by_pair if target in (None, into)))
        if len(sources) < 2:
            return [(source, 100.0) for source in sources]
        return _probabilities(text[:MAX_DETECT_CHARS], sources)

    def choose(self, source: str, target: str, text: str) -> tuple[Translator, str, float]:
        """Returns the translator for two languages, the source's code, and the probability of that code in percent.

        source: a code, or "auto" to detect the text's language. Codes may be lowercase, and a region (de-de) is ignored
        if only the language is known. Raises DataError in LibreTranslate's words.
        """
        known = {code.lower(): code for pair in self._by_pair for code in pair}
        known = {primary_subtag(code): known[code] for code in known if code.isalpha()} | known  # nb is also nob and no

        def find(code: str) -> str:
            if not (found := known.get(code.lower()) or known.get(primary_subtag(code.lower()))):
                raise DataError(f"{code[:50]} is not supported")
            return found

        source, target, confidence = AUTO if source == AUTO else find(source), find(target), 100.0
        if source == AUTO:
            source, confidence = (self.detect(text, target) or self.detect(text))[0]
        if (source, target) not in self._by_pair:
            from_, into = LANGUAGE_NAMES.get(source, source), LANGUAGE_NAMES.get(target, target)
            raise DataError(f"{into} ({target}) is not available as a target language from {from_} ({source})")
        return self._by_pair[source, target], source, confidence


def _probabilities(text: str, languages: Collection[str]) -> list[tuple[str, float]]:
    """Returns the probability of each language, in percent, if the text is in one of them; the likeliest first.

    py3langid's scores are sums of log-probabilities, as if features were independent, so its own `norm_probs` returns
    little else than 0 and 100. Here they are divided by √length first.
    """
    scores = dict.fromkeys(languages, -math.inf)
    scores.update({code: float(score) for code, score in py3langid.rank(text) if code in scores})
    best, scale = max(scores.values()), math.sqrt(len(text.encode()) or 1)
    weights = {code: math.exp((score - best) / scale) if score > -math.inf else 0.0 for code, score in scores.items()}
    total = sum(weights.values()) or 1.0
    shares = [(code, round(100 * weight / total, 1)) for code, weight in weights.items()]
    return sorted(shares, key=lambda pair: -pair[1])
