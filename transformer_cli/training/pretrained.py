"""Puts pretrained word vectors into the rows of a model's embeddings. Knows words and weights, nothing of steps."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.specials import SPECIALS
from transformer_cli.data.vectors import Vectors, read_vectors
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.model.transformer import Transformer

N_NAMED = 8  # how many missed words the log line about coverage names

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VectorRows:
    """The pretrained vectors for one side's vocabulary."""

    side: str
    """source or target"""
    ids: Tensor
    """int64 (n,): the rows of the embedding that they replace"""
    values: Tensor
    """float32 (n, d_model): the vectors"""


def read_pretrained(config: Config, dataset: Dataset) -> list[VectorRows]:
    """Read the vectors that model.vectors names, for all words that have one; logs how many words these are.

    Raises ConfigError if the vectors are not model.d_model wide, DataError if no word has one; otherwise as
    `read_vectors` does.
    """
    codecs = {"source": dataset.codecs.source, "target": dataset.codecs.target}
    found = []
    for side, where in config.model.pretrained.items():
        all_ids = range(len(SPECIALS), len(codecs[side]))
        words = codecs[side].tokens(all_ids)
        vectors = read_vectors(where, words, lowercase=config.data.lowercased)
        if vectors.dimension != config.model.d_model:
            raise ConfigError(
                f"model.vectors.{side}: {where} has {vectors.dimension} numbers per word, but model.d_model is "
                f"{config.model.d_model}; set model.d_model: {vectors.dimension}, or choose other vectors"
            )
        if not vectors.found:
            raise DataError(
                f"{where}: not one of the {len(words):,} words of the {side} vocabulary; choose vectors of its "
                "language, and of its case (data.lowercase)"
            )
        log.info("%s vectors: %s", side, _coverage(where, words, vectors))
        ids = torch.tensor([index for index, word in zip(all_ids, words, strict=True) if word in vectors.found])
        found.append(VectorRows(side, ids, torch.from_numpy(np.stack(list(vectors.found.values())))))
    return found


def load_pretrained(model: Transformer, pretrained: Sequence[VectorRows]) -> None:
    """Replace random rows of the embeddings by pretrained vectors."""
    embeddings = {"source": model.source_embedding, "target": model.target_embedding}
    for rows in pretrained:
        embeddings[rows.side].load_vectors(rows.ids, rows.values)


def _coverage(where: str, words: Collection[str], vectors: Vectors) -> str:
    missed = [word for word in words if word not in vectors.found]  # most frequent first, as in the vocabulary
    line = f"{where} ({vectors.dimension} numbers each): {len(vectors.found):,} of {len(words):,} words"
    line += f" ({len(vectors.found) / len(words):.1%})"
    if vectors.n_other_case:
        line += f", {vectors.n_other_case:,} of them in another case"
    if missed:
        line += f"; missed: {', '.join(missed[:N_NAMED])}" + (", …" if len(missed) > N_NAMED else "")
    return line
