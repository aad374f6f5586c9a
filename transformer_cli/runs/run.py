"""A run: opened, created or found; its checkpoints and its history. See folder.py for its files.

Does not read checkpoints (see checkpoints.py). Imports torch only in the functions that create a model.
"""

import json
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import CheckpointError, ConfigError, FileError, MissingFile
from transformer_cli.runs.finding import find_run
from transformer_cli.runs.folder import (
    CHECKPOINT,
    EXPORTED_WEIGHTS,
    HISTORY,
    IF_MISSING,
    INCOMPLETE,
    IS_EXPORTED,
    POINTERS,
    RESTORE_HINT,
    as_checkpoint_error,
    is_new,
    is_pointer,
)
from transformer_cli.runs.metadata import (
    ExportInfo,
    RunMetadata,
    fixed_settings,
    read_config,
    read_metadata,
    write_config,
    write_metadata,
)
from transformer_cli.runs.provenance import provenance
from transformer_cli.system import files
from transformer_cli.text.codec import Codecs, codec_files
from transformer_cli.text.languages import short_code
from transformer_cli.text.lengths import LengthBounds
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import PAD
from transformer_cli.text.words import SPACY_VERSION

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """An opened run or exported model. Its folder has all that is needed to translate."""

    folder: Path
    config: Config = field(repr=False)
    codecs: Codecs = field(repr=False)
    metadata: RunMetadata = field(repr=False)
    pointer: str = "best"
    """to the checkpoint that translates"""

    @staticmethod
    def create(folder: Path, config: Config, dataset: Dataset, *, device: str | None = None) -> "Run":
        """Create the folder of a new run, without a checkpoint.

        device: on which it will be trained, by `device_name`.
        """
        assert is_new(folder), folder
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(folder / INCOMPLETE, "nothing has been saved yet\n")
        for name in ("run.json", files.CHECKSUMS):  # of a run that was killed before its first checkpoint
            (folder / name).unlink(missing_ok=True)
        dataset.codecs.save(folder)
        files.write_text(folder / HISTORY, "")
        write_config(folder, config)
        training, manifest = config.training, dataset.manifest
        recorded = manifest.get("tokenizer", {})
        tokenizer = {key: recorded[key] for key in ("library", "version") if key in recorded}
        origin = {
            **provenance(device=device, threads=training.num_threads, shards=training.shards),
            "sources": manifest.get("sources", {}),
            "files": {name: path.name for name, path in config.data.texts},
        }
        lengths = {token: LengthBounds(*bounds) for token, bounds in manifest.get("lengths", {}).items()}
        metadata = RunMetadata(
            id=secrets.token_hex(8),
            settings=fixed_settings(config),
            tokenizer=tokenizer,
            provenance=origin,
            lengths=lengths,
        )
        write_metadata(folder, metadata)
        files.write_checksums(folder, ["run.json", *codec_files(config.data)])
        return Run(folder, config, Codecs.load(folder, config.data), metadata)

    @staticmethod
    def open(folder: Path) -> "Run":
        """Open a folder, or a pointer such as runs/demo/last, whose checkpoint then translates instead of the best.

        Raises CheckpointError if it is missing, damaged or of another format version, ConfigError for its config.yaml.
        """
        folder, pointer = Path(folder), "best"
        if is_pointer(folder):
            folder, pointer = folder.parent, folder.name
        metadata = read_metadata(folder)
        with as_checkpoint_error(folder):
            files.verify_files(folder)
            config = read_config(folder, metadata)
            return Run(folder, config, Codecs.load(folder, config.data), metadata, pointer)

    @staticmethod
    def load(run: "str | Path | Run | None", runs_dir: Path = Path("runs")) -> "Run":
        """Open a run by its name or folder; returns a Run unchanged. Raises as `find_run` and `open` do."""
        return run if isinstance(run, Run) else Run.open(find_run(run, runs_dir))

    def for_target(self, language: str | None) -> "Run":
        """Returns the run with another target language (None: the same), if its model has it. Raises ConfigError."""
        if language is None:
            return self
        data = self.config.data
        own = {short_code(each): each for each in (data.source, data.target)}  # de for deu
        to = own.get(short_code(language.lower()), language)
        config = self.config.model_copy(update={"data": data.model_copy(update={"to": to})})
        return replace(self, config=config, codecs=self.codecs.for_target(language))

    @property
    def exported(self) -> ExportInfo | None:
        """How the model was exported; None if this is not an exported model."""
        return self.metadata.exported

    @property
    def best_checkpoint_name(self) -> str:
        """The name of the checkpoint that translates, such as step-0004540. Raises CheckpointError."""
        return self.exported.checkpoint if self.exported else self.checkpoint(self.pointer).name

    @property
    def weights_sha256(self) -> str:
        """The SHA-256 of that checkpoint's file of weights. Raises CheckpointError."""
        name = EXPORTED_WEIGHTS if self.exported else "model.safetensors"
        folder = self.folder if self.exported else self.checkpoint(self.pointer)
        with as_checkpoint_error(self.folder):
            return files.read_checksums(folder).get(name, str(folder))

    def warn_if_tokenizer_changed(self) -> None:
        """Warn if the installed tokeniser has another version than the one that tokenised the training text."""
        library, before = (self.metadata.tokenizer.get(key) for key in ("library", "version"))
        now = {"spacy": SPACY_VERSION, "sentencepiece": SENTENCEPIECE_VERSION}.get(str(library))
        if now not in (None, before):
            log.warning(
                "%s: %s %s tokenised its training text, but %s is installed: some translations may differ; "
                "`pip install %s==%s` if that matters",
                *(self.folder, library, before, now, library, before),
            )

    def new_model(self) -> "Transformer":
        """Returns the untrained model, on the CPU; its weights depend on the run's seed alone.

        Leaves torch's random state as it was. Raises MemoryShortage, before it allocates anything, if the model is
        larger than the free memory.
        """
        import torch

        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.config.training.seed)
            return make_model(self.config, self.codecs, f"{self.folder}: ")

    def uninitialized_model(self) -> "Transformer":
        """Returns a model, on the CPU, with arbitrary weights, to be loaded. Draws no random numbers.

        Raises MemoryShortage as `new_model` does.
        """
        from transformer_cli.model.transformer import UninitializedWeights

        with UninitializedWeights():
            return make_model(self.config, self.codecs, f"{self.folder}: ")

    def checkpoint(self, pointer: str) -> Path:
        """Returns the folder to which `best`, `last` or `average` points. Raises CheckpointError if there is none."""
        self.refuse_exported()
        path = self.folder / pointer
        try:
            name = files.read_text(path).removesuffix("\n")
        except MissingFile:
            missing = f"{self.folder}: no {pointer} checkpoint yet; `tfm train` writes one"
            raise CheckpointError(f"{missing}; if it was lost, {RESTORE_HINT}") from None
        except FileError as error:
            raise CheckpointError(error.with_remedy(RESTORE_HINT, IF_MISSING)) from None
        folder = self.folder / "checkpoints" / name
        if not CHECKPOINT.fullmatch(name) or not folder.is_dir():
            raise CheckpointError(
                f"{path} names {files.preview(name)}, which is not a checkpoint in checkpoints/; {RESTORE_HINT}"
            )
        return folder

    def set_pointer(self, pointer: str, name: str) -> None:
        """Let `best`, `last` or `average` point to a checkpoint. Raises CheckpointError if it does not exist."""
        if pointer not in POINTERS:
            raise CheckpointError(f"{pointer!r} is not a pointer; the pointers are {', '.join(POINTERS)}")
        if not CHECKPOINT.fullmatch(name) or not (self.folder / "checkpoints" / name).is_dir():
            raise CheckpointError(f"{self.folder}: no checkpoint {files.preview(name)} for {pointer} to point to")
        files.write_text(self.folder / pointer, f"{name}\n")
        if pointer == "last":
            (self.folder / INCOMPLETE).unlink(missing_ok=True)

    def has_checkpoint(self, pointer: str) -> bool:
        """Whether the pointer `best`, `last` or `average` exists."""
        return (self.folder / pointer).is_file()

    def refuse_exported(self) -> None:
        """Raises CheckpointError for an exported model, which has neither checkpoints nor a history."""
        if self.exported:
            raise CheckpointError(f"{self.folder}: {IS_EXPORTED}")

    def refuse_if_gone(self) -> None:
        """Raises CheckpointError if the folder was moved, deleted or replaced by another run's."""
        with suppress(CheckpointError):
            if read_metadata(self.folder).id == self.metadata.id:
                return
        raise CheckpointError(
            f"{self.folder}: the run in training is not here any more, so it cannot be saved; its last checkpoint is "
            "in its folder, if that was moved"
        )

    def history(self) -> list[dict[str, Any]]:
        """Returns the lines of history.jsonl: the validations so far, oldest first. Raises CheckpointError."""
        self.refuse_exported()
        with as_checkpoint_error():
            return [json.loads(line) for line in files.read_text(self.folder / HISTORY).splitlines()]

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace history.jsonl. Raises CheckpointError as `refuse_if_gone` does."""
        self.refuse_if_gone()
        files.write_text(self.folder / HISTORY, "".join(f"{json.dumps(entry)}\n" for entry in entries))


def make_model(config: Config, codecs: Codecs, prefix: str = "") -> "Transformer":
    """Returns a new model for these codecs. Raises MemoryShortage, with a prefix, if it does not fit in memory."""
    from transformer_cli.model.size import check_model_memory
    from transformer_cli.model.transformer import Transformer

    source, target = sizes = len(codecs.source), len(codecs.target)
    check_model_memory(config.model, sizes, prefix=prefix)
    model = Transformer(config.model, source_vocabulary=source, target_vocabulary=target, pad_id=PAD)
    for part in config.training.freeze:
        model.get_submodule(part).requires_grad_(False)
    return model


def differing_codecs(one: DataConfig, other: DataConfig) -> str:
    """Returns the settings in which the codecs of two configs differ, as text for an error; "" if there are none."""
    ours, theirs = one.codec_settings, other.codec_settings
    differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]  # words and subwords share few keys
    return "; ".join(f"{key}: {inline_yaml(ours[key])} and {inline_yaml(theirs[key])}" for key in differing)


def find_tokenizer_run(data: DataConfig, runs_dir: Path = Path("runs")) -> Path | None:
    """Returns the folder of the run that data.tokenizer_from names, or None if it is not set.

    Raises CheckpointError if there is no such run, ConfigError if its codecs have other settings than `data`.
    """
    if data.tokenizer_from is None:
        return None
    run = Run.load(data.tokenizer_from, runs_dir)
    if differing := differing_codecs(run.config.data, data):
        raise ConfigError(
            f"data.tokenizer_from: {data.tokenizer_from} has other settings ({differing}); set them to the values "
            "of that run"
        )
    run.warn_if_tokenizer_changed()
    return run.folder
