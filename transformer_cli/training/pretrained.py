"""What a new run begins with, other than random weights: pretrained word vectors, or the weights of another run.

Knows words, weights and runs, nothing of steps.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer_cli.config.load import differences
from transformer_cli.config.schema import Config, Shapes, keys_that_shape
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.vectors import Vectors, read_vectors
from transformer_cli.data.vocabulary import SPECIALS
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_best
from transformer_cli.runs.run import Run, find_run, free_name

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


@dataclass(frozen=True)
class Initial:
    """What replaces random weights when a run begins."""

    vectors: Sequence[VectorRows] = ()
    """rows of the embeddings, from `model.vectors`"""
    model: Transformer | None = None
    """a model of the same shape, from `training.initialize_from`"""

    @torch.no_grad()
    def fill(self, model: Transformer) -> None:
        """Copy it into a model that has random weights."""
        load_pretrained(model, self.vectors)
        if self.model is not None:
            weights = dict(self.model.named_parameters())
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])


NOTHING = Initial()


def read_initial(config: Config, dataset: Dataset, runs_dir: Path) -> Initial:
    """Read what the config names; the errors are those of `read_pretrained` and `read_weights`."""
    return Initial(read_pretrained(config, dataset), read_weights(config, dataset, runs_dir))


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


def read_weights(config: Config, dataset: Dataset, runs_dir: Path) -> Transformer | None:
    """Returns the best weights of the run that training.initialize_from names, on the CPU; None if it names none.

    Raises CheckpointError if there is no such run, ConfigError if it is this run itself, or its codecs or its
    model's shape are others.
    """
    name = config.training.initialize_from
    if name is None:
        return None
    run = Run.open(find_run(name, runs_dir))
    if run.folder.resolve() == (runs_dir / config.run_name).resolve():  # it would be moved aside, or is not there yet
        raise ConfigError(
            f"training.initialize_from: {name} is this run itself; give the new run a name of its own: "
            f"--set name={free_name(run.folder)}"
        )
    if changed := [each for each in differences(run.config, config) if _is_shape(each, config)]:
        raise ConfigError(
            f"training.initialize_from: {run.folder} has a model of another shape ({'; '.join(changed)}): give these "
            "settings the values of that run"
        )
    if run.codecs != dataset.codecs:
        raise ConfigError(
            f"training.initialize_from: the ids of {dataset.folder} are not those of {run.folder}: prepare the text "
            f"with data.codec={name}, and train with that setting too"
        )
    return load_best(run, torch.device("cpu"))


def _is_shape(difference: str, config: Config) -> bool:
    """Whether a difference between two configs is one between shapes of models."""
    key = difference.partition(":")[0]
    is_without_table = key == "model.max_length" and config.model.positions == "sinusoidal"
    return key in keys_that_shape(Config, Shapes.MODEL) and not is_without_table


def _coverage(where: str, words: Collection[str], vectors: Vectors) -> str:
    missed = [word for word in words if word not in vectors.found]  # most frequent first, as in the vocabulary
    line = f"{where} ({vectors.dimension} numbers each): {len(vectors.found):,} of {len(words):,} words"
    line += f" ({len(vectors.found) / len(words):.1%})"
    if vectors.n_other_case:
        line += f", {vectors.n_other_case:,} of them in another case"
    if missed:
        line += f"; missed: {', '.join(missed[:N_NAMED])}" + (", …" if len(missed) > N_NAMED else "")
    return line
