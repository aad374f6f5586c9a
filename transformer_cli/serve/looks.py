"""What the page asks for beside translations: the decoder's choices, one attention map, vectors in the plane.

Parameters → a function that a worker calls → JSON. Knows no sockets and no threads.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from fastapi import HTTPException
from torch import Tensor, nn

from transformer_cli.inspection.choices import Choices, decoder_choices, translate_from
from transformer_cli.inspection.numbers import Inspection, inspect_translation
from transformer_cli.inspection.plane import in_the_plane
from transformer_cli.serve.answers import direction_of, kinds_of, refuse_too_many_tokens, refuse_unspaced, sentence_of
from transformer_cli.serve.directions import Directions
from transformer_cli.serve.limits import Limits
from transformer_cli.serve.parameters import number_of, numbers_of
from transformer_cli.translator import Translation, Translator

DIGITS = 4  # of weights and places: more cannot be seen, and a map has up to 40,000 weights

Look = Callable[[], bytes]


def read_steps(parameters: Mapping[str, Any], directions: Directions, limits: Limits) -> Look:
    """Returns a function that translates from forced ids on, and tells the candidates of each step."""
    translator, translated = _translation_of(parameters, directions, limits)

    def look() -> bytes:
        return _as_json(_choices_as_dict(decoder_choices(translator, translated()), translator))

    return look


def read_attention(parameters: Mapping[str, Any], directions: Directions, limits: Limits) -> Look:
    """Returns a function that tells one head's weights, or the mean of all heads of a layer."""
    translator, translated = _translation_of(parameters, directions, limits)
    layer, head = number_of(parameters, "layer"), number_of(parameters, "head")
    kinds = kinds_of(parameters)
    if len(kinds) > 1:
        raise HTTPException(400, "Invalid request: missing kind parameter")

    def look() -> bytes:
        inspection = inspect_translation(translator, translated(), with_untrained=False)
        maps = inspection.maps(kinds, layer=layer, heads=[] if head is None else [head])
        weights = torch.stack([each.weights for each in maps]).mean(dim=0)
        first = maps[0]
        about = {"kind": first.kind, "layer": first.layer, "head": head}
        tokens = {"target_tokens": first.target_tokens, "source_tokens": first.source_tokens}
        return _as_json({**about, **tokens, "weights": _rounded(weights.tolist())})

    return look


def read_vectors(parameters: Mapping[str, Any], directions: Directions, limits: Limits) -> Look:
    """Returns a function that places a sentence's vectors in the plane, before and after the encoder."""
    translator, translated = _translation_of(parameters, directions, limits)

    def look() -> bytes:
        return _as_json(_vectors_as_dict(inspect_translation(translator, translated())))

    return look


def _translation_of(
    parameters: Mapping[str, Any], directions: Directions, limits: Limits
) -> tuple[Translator, Callable[[], Translation]]:
    """Returns the translator that is asked for, and a function that translates the sentence."""
    sentence = sentence_of(parameters, limits)
    forced = numbers_of(parameters, "prefix")
    chosen, _ = direction_of(parameters, directions)
    refuse_unspaced([sentence], chosen, limits.unspaced)

    def translated() -> Translation:
        refuse_too_many_tokens(chosen, sentence, limits.inspected)
        return translate_from(chosen.translator, sentence, forced)

    return chosen.translator, translated


def _choices_as_dict(choices: Choices, translator: Translator) -> dict[str, Any]:
    """Returns the translation and its steps, and what there is to look at: how many layers and heads."""
    translation, config = choices.translation, translator.model.config
    return {
        "source": translation.source,
        "translation": translation.text,
        "source_tokens": ["<sos>", *translation.source_tokens, "<eos>"],
        "log_prob": translation.log_prob,
        "alignment": [source + 1 for source in translation.alignment],  # as in source_tokens, after <sos>
        "steps": [asdict(step) for step in choices.steps],
        "attention": _rounded(choices.attention.tolist()),
        "layers": {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers},
        "heads": config.num_heads,
        "tokens": translator.run.config.data.tokens,
    }


def _vectors_as_dict(inspection: Inspection) -> dict[str, Any]:
    return {
        "source_tokens": inspection.source_tokens,
        "before": _plane_as_dict(inspection.before),
        "after": _plane_as_dict(inspection.after),
        "repetitions": [asdict(each) for each in inspection.repetitions()],
    }


def _plane_as_dict(vectors: Tensor) -> dict[str, Any]:
    """Returns where the directions of vectors, (tokens, d_model), lie in a plane: their lengths differ too much."""
    places, explained = in_the_plane(nn.functional.normalize(vectors.double(), dim=1).numpy())
    return {"places": _rounded(places.tolist()), "explained": explained.tolist()}


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[round(value, DIGITS) for value in row] for row in rows]


def _as_json(found: dict[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
