"""Parameters → what is computed → what is answered, for each address that computes. Knows no sockets and no threads."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import HTTPException

from transformer_cli.config.load import override_decoding
from transformer_cli.data.fitting import Fitting
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError, TfmError
from transformer_cli.inspection.as_json import inspection_as_json
from transformer_cli.inspection.numbers import KINDS, Kind, inspect_sentence
from transformer_cli.serve.directions import AUTO, Chosen, Directions
from transformer_cli.serve.limits import SPLIT, Limits
from transformer_cli.serve.parameters import number_of, text_of, texts_of
from transformer_cli.translator import Options, Translation


@dataclass(frozen=True)
class Translate:
    """What `POST /translate` asks for."""

    chosen: Chosen
    texts: list[list[str]]
    """the lines of each text"""
    is_list: bool
    """whether texts came, and go, as a list"""
    is_auto: bool
    n_alternatives: int | None
    settings: SearchSettings
    options: Options = Options()

    @property
    def lines(self) -> list[str]:
        """The lines of all texts."""
        return [line for text in self.texts for line in text]

    def answer(self, translations: Sequence[Translation]) -> dict[str, Any]:
        """Returns LibreTranslate's answer. translations: one for each of `lines`."""
        found = iter(translations)
        texts = [[next(found) for _ in text] for text in self.texts]
        answer: dict[str, Any] = {"translatedText": self._as_asked(["\n".join(map(_text, each)) for each in texts])}
        if self.is_auto:
            detected = {"confidence": 100.0, "language": self.chosen.source}
            answer["detectedLanguage"] = self._as_asked([detected for _ in texts])
        if self.n_alternatives is not None:
            answer["alternatives"] = self._as_asked([_alternatives(each, self.n_alternatives) for each in texts])
        return answer

    def _as_asked(self, of_texts: list[Any]) -> Any:
        return of_texts if self.is_list else of_texts[0]


def read_translate(parameters: Mapping[str, Any], directions: Directions, limits: Limits) -> Translate:
    """Returns what is asked for, as LibreTranslate reads its parameters. Raises HTTPException."""
    texts, is_list = texts_of(parameters, limits)
    chosen, source = direction_of(parameters, directions)
    refuse_unspaced(texts, chosen, limits.unspaced)
    text_format = text_of(parameters, "format", "text")
    if text_format != "text":
        why = f"{text_format} format is not supported; send plain text, and format text"
        raise HTTPException(400, why)
    n_alternatives = number_of(parameters, "alternatives")
    if n_alternatives is not None and not 0 <= n_alternatives <= limits.alternatives:
        what = f"Invalid request: alternatives parameter ({n_alternatives}) exceeds limit ({limits.alternatives})"
        raise HTTPException(400, what)
    settings = replace(chosen.translator.settings, scores=False)
    if n_alternatives:
        beam_size = max(settings.decoding.beam_size, n_alternatives + 1)
        decoding = (
            settings.decoding if settings.decoding.sample else override_decoding(settings.decoding, beam_size=beam_size)
        )
        settings = replace(settings, n_best=n_alternatives + 1, decoding=decoding)
    return Translate(chosen, [lines_of(text) for text in texts], is_list, source == AUTO, n_alternatives, settings)


def read_inspect(parameters: Mapping[str, Any], directions: Directions, limits: Limits) -> Callable[[], bytes]:
    """Returns a function that looks into the sentence and returns JSON. Raises HTTPException."""
    sentence = sentence_of(parameters, limits)
    chosen, _ = direction_of(parameters, directions)
    refuse_unspaced([sentence], chosen, limits.unspaced)
    translator = chosen.translator
    kinds = kinds_of(parameters)
    layer, head = number_of(parameters, "layer"), number_of(parameters, "head")

    def look() -> bytes:
        refuse_too_many_tokens(chosen, sentence, limits.inspected)
        inspection = inspect_sentence(translator, sentence)
        maps = inspection.maps(kinds, layer=layer, heads=[] if head is None else [head])
        return inspection_as_json(inspection, maps).encode()

    return look


def sentence_of(parameters: Mapping[str, Any], limits: Limits) -> str:
    """Returns the one line that is to be looked into. Raises HTTPException."""
    texts, is_list = texts_of(parameters, limits)
    if is_list or "\n" in texts[0]:
        raise HTTPException(400, "Invalid request: q parameter is not one sentence on one line")
    return texts[0]


def direction_of(parameters: Mapping[str, Any], directions: Directions) -> tuple[Chosen, str]:
    """Returns the run that is asked for, and the source as it was named. Raises HTTPException."""
    source, target = text_of(parameters, "source"), text_of(parameters, "target")
    try:
        return directions.choose(source, target), source
    except TfmError as error:
        raise HTTPException(400, str(error)) from None


def kinds_of(parameters: Mapping[str, Any]) -> list[Kind]:
    """Returns the kind of attention that is asked for, or all of them. Raises HTTPException."""
    wanted = text_of(parameters, "kind", "")
    if wanted and wanted not in KINDS:
        raise HTTPException(400, f"Invalid request: kind parameter is not {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return [kind for kind in KINDS if wanted in ("", kind)]


def refuse_unspaced(texts: Sequence[str], chosen: Chosen, limit: int) -> None:
    """Raises HTTPException for what would keep a tokeniser of words, and the whole process, busy for seconds."""
    if chosen.translator.run.config.data.tokens != "words":
        return
    for number, line in enumerate((line for text in texts for line in lines_of(text)), start=1):
        if re.search(rf"\S{{{limit + 1}}}", line):
            raise HTTPException(400, f"line {number}: more than {limit} characters without a space; {SPLIT}")


def refuse_too_many_tokens(chosen: Chosen, sentence: str, limit: int) -> None:
    """Raises DataError if a sentence has more tokens than the model takes, or than may be looked into."""
    translator = chosen.translator
    fitting = Fitting(translator.run.codecs.source, translator.max_length, "stop", SPLIT)
    n_tokens = len(fitting.line(sentence).read)
    if n_tokens > limit:
        raise DataError(f"{n_tokens} tokens, but at most {limit} can be looked into; {SPLIT}")


def lines_of(text: str) -> list[str]:
    r"""Returns the lines of a text, which end at "\n" only, or at "\r\n"."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def _text(translation: Translation) -> str:
    return translation.text


def _alternatives(lines: Sequence[Translation], most: int) -> list[str]:
    """Returns further translations of a text. A line that has fewer of them, such as a blank one, stays."""
    n_found = max(len(line.alternatives) for line in lines)
    return [
        "\n".join((line.alternatives[n] if n < len(line.alternatives) else line).text for line in lines)
        for n in range(min(most, n_found))
    ]
