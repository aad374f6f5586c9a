"""Initial weights of a new run: pretrained word vectors, or the weights of another run. Knows nothing of steps."""

import logging
from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer_cli.config.load import differences
from transformer_cli.config.schema import Affects, Config, keys_affecting
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.checkpoints import Checkpoint, load_best
from transformer_cli.runs.folder import free_name
from transformer_cli.runs.run import Run
from transformer_cli.system.files import read_checksums, read_verified_json, write_checksums, write_json
from transformer_cli.system.terminal import first_few, pluralize
from transformer_cli.text.vectors import Vectors, read_vectors
from transformer_cli.text.vocabulary import SPECIALS
from transformer_cli.training.callbacks import Callback, TrainerView

EMBEDDING_NAME = "{}_embedding.tokens.weight"  # of source or target, in the model
FROZEN_ROWS = "frozen_rows.json"  # in the run's folder: source or target → rows of its embedding

log = logging.getLogger(__name__)


class PretrainedVectors(Callback):
    """Copies pretrained vectors into the embeddings of a new run, and freezes them if `model.vectors.freeze` is set."""

    implements = "model.vectors"

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read the vectors of the words in the vocabulary, and log how many have one.

        Raises ConfigError if the vectors do not have model.d_model numbers, DataError if no word has a vector, and what
        `read_vectors` raises.
        """
        self.vectors: dict[str, tuple[Tensor, Tensor]] = {}
        """source or target → rows of its embedding, int64 (n,), and their vectors, float32 (n, d_model)"""
        codecs = {"source": dataset.codecs.source, "target": dataset.codecs.target}
        for side, where in config.model.pretrained.items():
            all_ids = range(len(SPECIALS), len(codecs[side]))
            words = codecs[side].tokens(all_ids)
            vectors = read_vectors(Path(where), words, lowercase=config.data.lowercased)
            if vectors.dimension != config.model.d_model:
                raise ConfigError(
                    f"model.vectors.{side}: {where} has {vectors.dimension} numbers per word, but model.d_model is "
                    f"{config.model.d_model}; set model.d_model: {vectors.dimension}, or choose other vectors"
                )
            if not vectors.by_word:
                raise DataError(
                    f"{where}: no vector for any of the {len(words):,} words of the {side} vocabulary; choose "
                    "vectors for that language, lower-cased if data.lowercase is true"
                )
            log.info("%s vectors: %s", side, _coverage_text(where, words, vectors))
            ids = torch.tensor([index for index, word in zip(all_ids, words, strict=True) if word in vectors.by_word])
            self.vectors[side] = ids, torch.from_numpy(np.stack(list(vectors.by_word.values())))

    @torch.no_grad()
    def on_new_run(self, run: Run, checkpoint: Checkpoint) -> None:
        """Copy the vectors into the embeddings, and write the rows of frozen ones into the run's folder."""
        for side, (rows, values) in self.vectors.items():
            checkpoint.model.get_parameter(EMBEDDING_NAME.format(side))[rows] = values
        if run.config.model.vectors.freeze:
            write_json(run.folder / FROZEN_ROWS, {side: rows.tolist() for side, (rows, _) in self.vectors.items()})
            write_checksums(run.folder, [*read_checksums(run.folder), FROZEN_ROWS])
        del self.vectors

    def on_begin(self, trainer: TrainerView) -> None:
        """Read the rows that are frozen. Raises FileError."""
        freeze, device = trainer.run.config.model.vectors.freeze, trainer.learner.device
        rows = read_verified_json(trainer.run.folder / FROZEN_ROWS) if freeze else {}
        self.frozen = {side: torch.tensor(of_side, device=device) for side, of_side in rows.items()}
        for side, of_side in self.frozen.items():
            log.info("%s vectors: %s frozen", side, pluralize(len(of_side), "word"))

    def on_gradients(self, trainer: TrainerView) -> None:
        """Set the gradients of frozen vectors to 0, so that Adam, without weight decay, does not change them."""
        for side, rows in self.frozen.items():
            if (gradient := trainer.learner.model.get_parameter(EMBEDDING_NAME.format(side)).grad) is not None:
                gradient[rows] = 0.0


class InitialWeights(Callback):
    """Initialises a new run with the best weights of the run `training.initialize_from`."""

    implements = "training.initialize_from"

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read the weights.

        Raises CheckpointError if there is no such run, ConfigError if it is this run, or has another model or codecs.
        """
        name = config.training.initialize_from
        assert name is not None, "this callback is only used with it"
        run = Run.load(name, runs_dir)
        if run.folder.resolve() == (runs_dir / config.run_name).resolve():  # it would be moved aside, or is not there
            raise ConfigError(
                f"training.initialize_from: {name} is this run itself; give the new run a name of its own: "
                f"--set name={free_name(run.folder)}"
            )
        shape = keys_affecting(Affects.MODEL)
        if not config.model.has_position_table:
            shape -= {"model.max_length"}  # there is no table of positions
        if changed := [each for each in differences(run.config, config) if each.partition(":")[0] in shape]:
            raise ConfigError(
                f"training.initialize_from: {run.folder} has a model of another shape ({'; '.join(changed)}): give "
                "these settings the values of that run"
            )
        if run.codecs != dataset.codecs:
            raise ConfigError(
                f"training.initialize_from: the ids of {dataset.folder} are not those of {run.folder}: prepare the "
                f"text with data.tokenizer_from={name}, and train with that setting too"
            )
        self.weights = load_best(run, torch.device("cpu"))[1]

    @torch.no_grad()
    def on_new_run(self, run: Run, checkpoint: Checkpoint) -> None:
        """Copy the weights into the new model."""
        others = dict(self.weights.named_parameters())
        for name, parameter in checkpoint.model.named_parameters():
            parameter.copy_(others[name])
        del self.weights


def _coverage_text(where: str, words: Collection[str], vectors: Vectors) -> str:
    missed = [word for word in words if word not in vectors.by_word]  # most frequent first, as in the vocabulary
    line = f"{where} ({vectors.dimension} numbers each): {len(vectors.by_word):,} of {len(words):,} words"
    line += f" ({len(vectors.by_word) / len(words):.1%})"
    if vectors.n_other_case:
        line += f", {vectors.n_other_case:,} of them in another case"
    if missed:
        line += f"; missed: {first_few(missed)}"
    return line
