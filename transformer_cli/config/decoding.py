"""The config's section `decoding`: how a translation is searched for."""

from typing import Annotated

from pydantic import Field, model_validator

from transformer_cli.config.section import Section, Seed, Shapes


class DecodingConfig(Section):
    """How a translation is searched for; the defaults are greedy search. A run keeps it, and --set overrides it."""

    shapes = Shapes.NOTHING

    beam_size: Annotated[int, Field(ge=1, le=1000)] = 1
    """hypotheses that are kept at each step (1: greedy search)"""
    length_penalty: Annotated[float, Field(ge=0.0, le=5.0)] = 1.0
    """α: hypotheses are compared by log p / length^α, <eos> counted (0: by log p, which prefers short ones)"""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=10_000)] = 0
    """no sequence of this many tokens occurs twice in a translation (0: any may)"""
    sample: bool = False
    """draw each token at random, instead of searching for the likeliest translation"""
    temperature: Annotated[float, Field(ge=0.001, le=1000.0)] = 1.0
    """with sample: divide logits by this; below 1 likely tokens become likelier"""
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """with sample: draw from this many likeliest tokens only (0: from all)"""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """with sample: draw from the likeliest tokens that together have this probability (Holtzman et al. 2020; 1: all)"""
    seed: Seed = 0
    """with sample: another seed draws other translations"""

    @model_validator(mode="after")
    def _one_way_to_search(self) -> "DecodingConfig":
        if self.sample and self.beam_size > 1:
            raise ValueError(
                f"sample: true draws tokens at random, but a beam of {self.beam_size} searches for the likeliest; "
                "set beam_size: 1 or sample: false"
            )
        return self
