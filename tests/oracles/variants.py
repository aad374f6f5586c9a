"""The model's variants: every choice that the schema offers, so that tests cover whatever somebody adds to it."""

from typing import Any, Literal, get_args, get_origin

from transformer_cli.config.schema import ModelConfig


def choices() -> dict[str, list[Any]]:
    """Returns the keys of ModelConfig that choose among a few values, and these values, the default first."""
    found: dict[str, list[Any]] = {}
    for key, field in ModelConfig.model_fields.items():
        values = [False, True] if field.annotation is bool else []
        if get_origin(field.annotation) is Literal:
            values = [*get_args(field.annotation)]
        if values:
            found[key] = sorted(values, key=lambda value: bool(value != field.default))
    return found


VARIANTS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    **{f"{key}: {value}": {key: value} for key, values in choices().items() for value in values[1:]},
    "norm: pre": {"norm": "pre", "final_norm": True},  # without it numbers grow with each layer, and rounding with them
    "pre-norm, sinusoidal": {"norm": "pre", "final_norm": True, "positions": "sinusoidal", "max_length": None},
    "wide heads, all tied": {"head_dim": 12, "tie_embeddings": "all", "activation": "gelu", "qkv_bias": False},
}
"""what each case is called → the values that it sets, one at a time and some together"""
