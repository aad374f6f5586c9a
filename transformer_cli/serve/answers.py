"""Questions → what is computed → what is answered. Knows no sockets and no threads."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from fastapi import HTTPException
from pydantic import BaseModel
from torch import Tensor, nn

from transformer_cli.config.load import override_decoding
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError, TfmError
from transformer_cli.inspection.choices import decoder_choices, translate_from
from transformer_cli.inspection.numbers import AttentionMap, Inspection, inspect_translation
from transformer_cli.inspection.plane import in_the_plane
from transformer_cli.serve.languages import AUTO, Chosen, Directions
from transformer_cli.serve.questions import (
    AttentionQuestion,
    DirectedQuestion,
    Limits,
    SentenceQuestion,
    TranslateQuestion,
)
from transformer_cli.translator import Options, Translation, Translator

DIGITS = 4  # of weights, scores and vectors: more cannot be seen

Look = Callable[[], bytes]
"""What a worker calls, and JSON"""


class Detected(BaseModel):
    """A language, and how sure that is."""

    confidence: float
    language: str


class Translated(BaseModel):
    """LibreTranslate's answer: one text, or a list if a list was sent."""

    translatedText: str | list[str]
    detectedLanguage: Detected | list[Detected] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class Failure(BaseModel):
    """What was wrong."""

    error: str


@dataclass(frozen=True)
class Translate:
    """Lines to be translated, and how the answer is made of them."""

    chosen: Chosen
    texts: list[list[str]]
    """the lines of each text"""
    question: TranslateQuestion
    settings: SearchSettings
    options: Options = Options()

    @property
    def lines(self) -> list[str]:
        """The lines of all texts."""
        return [line for text in self.texts for line in text]

    def answer(self, translations: Sequence[Translation]) -> bytes:
        """Returns the answer in JSON. translations: one for each of `lines`."""
        found = iter(translations)
        texts = [[next(found) for _ in text] for text in self.texts]
        answer: dict[str, Any] = {
            "translatedText": self._as_asked(["\n".join(each.text for each in text) for text in texts])
        }
        if self.question.source == AUTO:
            detected = {"confidence": 100.0, "language": self.chosen.source}
            answer["detectedLanguage"] = self._as_asked([detected for _ in texts])
        if (most := self.question.alternatives) is not None:
            answer["alternatives"] = self._as_asked([_alternatives(text, most) for text in texts])
        return _as_json(answer)

    def _as_asked(self, of_texts: list[Any]) -> Any:
        return of_texts if isinstance(self.question.q, list) else of_texts[0]


def read_translate(asked: TranslateQuestion, directions: Directions, limits: Limits) -> Translate:
    """Returns what is to be translated. Raises HTTPException."""
    texts = asked.q if isinstance(asked.q, list) else [asked.q]
    n_lines, n_characters = sum(text.count("\n") + 1 for text in texts), sum(map(len, texts))
    for size, limit, unit in ((n_lines, limits.lines, "lines"), (n_characters, limits.characters, "characters")):
        if size > limit:
            what = f"Invalid request: request ({size}) exceeds text limit ({limit})"
            raise HTTPException(400, f"{what} of {unit}; send it in parts")
    chosen = _chosen(asked, directions)
    lines = [[line.removesuffix("\r") for line in text.split("\n")] for text in texts]
    _refuse_unspaced([line for text in lines for line in text], chosen, limits)
    if asked.format not in (None, "", "text"):
        raise HTTPException(400, f"{asked.format[:50]} format is not supported; send plain text, and format text")
    most = asked.alternatives or 0
    if not 0 <= most <= limits.alternatives:
        what = f"Invalid request: alternatives parameter ({most}) exceeds limit ({limits.alternatives})"
        raise HTTPException(400, what)
    settings = replace(chosen.translator.settings, scores=False)
    if most:
        decoding = settings.decoding
        if not decoding.sample:
            decoding = override_decoding(decoding, beam_size=max(decoding.beam_size, most + 1))
        settings = replace(settings, n_best=most + 1, decoding=decoding)
    return Translate(chosen, lines, asked, settings)


def read_inspect(asked: AttentionQuestion, directions: Directions, limits: Limits) -> Look:
    """Returns a function that looks into the sentence: `tfm inspect --json` for one kind of attention, in 4 digits."""
    translator, translated = _translation_of(asked, directions, limits)

    def look() -> bytes:
        inspection = inspect_translation(translator, translated())
        maps = _maps(inspection, asked)
        stages = {name: getattr(inspection, name) for name in ("without_positions", "before", "after")}
        n_numbers = sum(2 * each.weights.numel() for each in maps) + sum(each.numel() for each in stages.values())
        if n_numbers > limits.numbers:
            raise DataError(
                f"the answer would have {n_numbers:,} numbers, but at most {limits.numbers:,} are sent; "
                "name a head, split the sentence, or use tfm inspect"
            )
        names = ("translation", "source_tokens", "source_ids", "target_tokens", "target_ids")
        attention = [
            {
                "kind": each.kind,
                "layer": each.layer,
                "head": each.head,
                "scores": None if each.scores is None else _finite(_rounded(each.scores)),
                "weights": _rounded(each.weights),
            }
            for each in maps
        ]
        return _as_json(
            {
                "source": inspection.sentence,
                **{name: getattr(inspection, name) for name in names},
                "attention": attention,
                "vectors": {name: _rounded(vectors) for name, vectors in stages.items()},
                "repetitions": _repetitions(inspection),
            }
        )

    return look


def read_steps(asked: SentenceQuestion, directions: Directions, limits: Limits) -> Look:
    """Returns a function that translates from forced ids on, and tells the candidates of each step."""
    translator, translated = _translation_of(asked, directions, limits)

    def look() -> bytes:
        choices = decoder_choices(translator, translated())
        translation, config = choices.translation, translator.model.config
        return _as_json(
            {
                "source": translation.source,
                "translation": translation.text,
                "source_tokens": ["<sos>", *translation.source_tokens, "<eos>"],
                "log_prob": translation.log_prob,
                "alignment": [source + 1 for source in translation.alignment],  # as in source_tokens, after <sos>
                "steps": [asdict(step) for step in choices.steps],
                "attention": _rounded(choices.attention),
                "layers": {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers},
                "heads": config.num_heads,
                "tokens": translator.run.config.data.tokens,
            }
        )

    return look


def read_attention(asked: AttentionQuestion, directions: Directions, limits: Limits) -> Look:
    """Returns a function that tells one head's weights, or the mean of all heads of a layer."""
    translator, translated = _translation_of(asked, directions, limits)

    def look() -> bytes:
        maps = _maps(inspect_translation(translator, translated(), with_untrained=False), asked)
        first, weights = maps[0], torch.stack([each.weights for each in maps]).mean(dim=0)
        about = {"kind": first.kind, "layer": first.layer, "head": asked.head}
        tokens = {"target_tokens": first.target_tokens, "source_tokens": first.source_tokens}
        return _as_json({**about, **tokens, "weights": _rounded(weights)})

    return look


def read_vectors(asked: SentenceQuestion, directions: Directions, limits: Limits) -> Look:
    """Returns a function that places a sentence's vectors in the plane, before and after the encoder."""
    translator, translated = _translation_of(asked, directions, limits)

    def look() -> bytes:
        inspection = inspect_translation(translator, translated())
        return _as_json(
            {
                "source_tokens": inspection.source_tokens,
                "before": _plane(inspection.before),
                "after": _plane(inspection.after),
                "repetitions": _repetitions(inspection),
            }
        )

    return look


def _translation_of(
    asked: SentenceQuestion, directions: Directions, limits: Limits
) -> tuple[Translator, Callable[[], Translation]]:
    """Returns the translator that is asked for, and a function that translates the sentence. Raises HTTPException."""
    if len(asked.q) > limits.characters:
        what = f"Invalid request: request ({len(asked.q)}) exceeds text limit ({limits.characters})"
        raise HTTPException(400, f"{what} of characters; send it in parts")
    chosen = _chosen(asked, directions)
    _refuse_unspaced([asked.q], chosen, limits)
    translator = chosen.translator
    return translator, lambda: translate_from(translator, asked.q, asked.prefix, most_tokens=limits.inspected)


def _chosen(asked: DirectedQuestion, directions: Directions) -> Chosen:
    """Returns the run that is asked for. Raises HTTPException."""
    try:
        return directions.choose(asked.source, asked.target)
    except TfmError as error:
        raise HTTPException(400, str(error)) from None


def _refuse_unspaced(lines: Sequence[str], chosen: Chosen, limits: Limits) -> None:
    """Raises HTTPException for what would keep a tokeniser of words, and the whole process, busy for seconds."""
    if chosen.translator.run.config.data.tokens != "words":
        return
    for number, line in enumerate(lines, start=1):
        if re.search(rf"\S{{{limits.unspaced + 1}}}", line):
            what = f"more than {limits.unspaced} characters without a space"
            raise HTTPException(400, f"line {number}: {what}; split the sentence")


def _maps(inspection: Inspection, asked: AttentionQuestion) -> list[AttentionMap]:
    return inspection.maps([asked.kind], layer=asked.layer, heads=[] if asked.head is None else [asked.head])


def _alternatives(lines: Sequence[Translation], most: int) -> list[str]:
    """Returns further translations of a text. A line that has fewer of them, such as a blank one, stays."""
    n_found = max(len(line.alternatives) for line in lines)
    return [
        "\n".join((line.alternatives[n] if n < len(line.alternatives) else line).text for line in lines)
        for n in range(min(most, n_found))
    ]


def _plane(vectors: Tensor) -> dict[str, Any]:
    """Returns where the directions of vectors, (tokens, d_model), lie in a plane: their lengths differ too much."""
    places, explained = in_the_plane(nn.functional.normalize(vectors.double(), dim=1).numpy())
    return {"places": _rounded(torch.from_numpy(places)), "explained": explained.tolist()}


def _repetitions(inspection: Inspection) -> list[dict[str, Any]]:
    found = [asdict(each) for each in inspection.repetitions()]
    return [{k: round(v, DIGITS) if isinstance(v, float) else v for k, v in each.items()} for each in found]


def _rounded(numbers: Tensor) -> list[list[float]]:
    return torch.round(numbers.double(), decimals=DIGITS).tolist()


def _finite(rows: list[list[float]]) -> list[list[float | None]]:
    """JSON has no -inf, the score of what may not be attended to: null stands for it."""
    return [[None if score == float("-inf") else score for score in row] for row in rows]


def _as_json(found: dict[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
