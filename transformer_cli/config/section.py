"""What every section of the config is, what a setting can shape, and types that sections share. Knows no setting."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
Width = Annotated[int, Field(ge=1, le=1_048_576)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
MOST_OF_A_NAME = 100  # characters: file names are made of it, and may have 255 bytes
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_OF_A_NAME - 1}}}")


class Shapes(Enum):
    """What a setting shapes, and with that where it may be another one.

    A section says it for its fields; a field that differs has its own in its annotation.
    """

    DATASET = "a dataset"
    CODEC = "a dataset, and the codecs that it is encoded with"
    MODEL = "the weights: their number and shapes, and what is computed with them"
    TRAINING = "the course of training: a run keeps it"
    PLACE = "nothing: it says where something is, and that may be moved"
    NOTHING = "nothing that must stay: a resumed run takes the new value"


class Section(BaseModel):
    """Strict and frozen: unknown keys and values of another type are errors, and nothing changes after loading."""

    shapes: ClassVar[Shapes]
    """what its fields shape, except for those that say otherwise"""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def fields_that_shape(section: type[Section], *kinds: Shapes) -> dict[str, Any]:
    """Returns the fields of a section that shape one of `kinds`, as model_dump's `include` takes them.

    A field that is a section itself is a mapping of such fields, and is absent if there are none.
    """
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            found |= {name: below} if (below := fields_that_shape(inner, *kinds)) else {}
        elif next((mark for mark in field.metadata if isinstance(mark, Shapes)), section.shapes) in kinds:
            found[name] = True
    return found


def keys_that_shape(section: type[Section], *kinds: Shapes) -> set[str]:
    """Returns the dotted keys, counted from the section, of the fields that shape one of `kinds`."""
    return {key for key, _ in leaves(fields_that_shape(section, *kinds))}


def leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of all that is not a mapping."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
