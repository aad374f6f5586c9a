"""What every section of the config is, and the types of values that several sections use. Knows no setting."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
Width = Annotated[int, Field(ge=1, le=1_048_576)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
MOST_OF_A_NAME = 100  # characters: file names are made of it, and may have 255 bytes
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_OF_A_NAME - 1}}}")


class Section(BaseModel):
    """Strict and frozen: unknown keys and values of another type are errors, and nothing changes after loading."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
