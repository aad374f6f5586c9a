"""A run's folder: creates, opens and finds it; keeps its metadata, its history and its pointers to checkpoints.

runs/multi30k/
    run.json                        metadata (`RunMetadata`)
    SHA256SUMS                      the checksums of run.json, the codecs and the copied text
    config.yaml                     the whole config, with what training chose, such as the precision
    source.vocab.txt target.vocab.txt target.detokenizer.json
                                    the dataset's codecs; for subwords {source,target}.subwords.model instead
    extra_valid.source.txt replay.target.txt …
                                    copies of the text that training.extra_valid and training.replay name
    frozen_rows.json                the words whose pretrained vectors are frozen, with model.vectors.freeze
    history.jsonl curves.png        the validations, one per line; the same as a picture
    tensorboard/                    the same as an event file, with training.tensorboard
    evaluations.jsonl               the results of `tfm evaluate` (see provenance.py)
    checkpoints/step-0004540/       the checkpoint after step 4540 (see checkpoints.py)
    best last average               pointers: text files with the name of a checkpoint
    .incomplete                     exists until the first checkpoint is complete
runs/latest                         a text file with the name of the newest run

exports/multi30k-int8/              an exported model: the weights in CTranslate2's format
    run.json                        the run's metadata, and `exported` (`ExportInfo`)
    SHA256SUMS                      the checksums of all files but config.yaml and README.md
    config.yaml                     the config; its section `decoding` may be edited
    source.vocab.txt target.vocab.txt target.detokenizer.json     as above
    model.bin config.json *_vocabulary.json     what CTranslate2 reads
    README.md                       how to use the model from Python without tfm
    evaluations.jsonl               as above

Does not know what is in a checkpoint. Imports torch only to make a model.
"""

import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transformer_cli.config.load import MAX_CONFIG_BYTES, dump_config, from_json, parse_config, settings_by_key
from transformer_cli.config.schema import MAX_NAME_CHARS, NAME, Affects, Config, DataConfig, keys_affecting
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import CheckpointError, ConfigError, DataError, FileError, MissingFile
from transformer_cli.runs.provenance import provenance
from transformer_cli.system.files import (
    CHECKSUMS,
    preview,
    read_checksums,
    read_text,
    read_verified_json,
    verify_files,
    write_checksums,
    write_json,
    write_text,
)
from transformer_cli.text.codec import Codecs, codec_files
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import PAD
from transformer_cli.text.words import SPACY_VERSION

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

Result = TypeVar("Result")

FORMAT_VERSION = 7
EXPORTED_WEIGHTS = "model.bin"
HISTORY = "history.jsonl"
INCOMPLETE = ".incomplete"
STEP, AVERAGE = (rf"{kind}-(?:\d{{7}}|[1-9]\d{{7,}})" for kind in ("step", "average"))
CHECKPOINT = re.compile(f"{STEP}(?:-unvalidated)?|{AVERAGE}")  # what a pointer may name
POINTERS = ("best", "last", "average")
RESTORE_HINT = "restore it, or give `tfm train --fresh` to move this run aside and begin anew"
EXPORT_AGAIN_HINT = "restore it, or delete the folder and export the run again"
IS_EXPORTED = (
    "an exported model can translate and be evaluated, but not trained or inspected; name the run that it was made from"
)
EDITABLE_FILES = ("config.yaml", "README.md")  # of an exported model
FIXED_KEYS = keys_affecting(Affects.DATASET, Affects.CODEC, Affects.MODEL, Affects.TRAINING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportInfo:
    """What an exported model was made from, and how."""

    run: str
    """the name of the run"""
    checkpoint: str
    """the name of the checkpoint"""
    quantization: str
    """the type of the weights: float32, float16, bfloat16, int16 or int8"""
    positions: int
    """the length limit of a sentence, <sos> and <eos> included"""
    written_by: str
    """the version of CTranslate2"""


@dataclass(frozen=True)
class RunMetadata:
    """The content of run.json. It does not change once the run is created."""

    id: str
    """16 random hexadecimal digits; shared by the run and its exports"""
    settings: Mapping[str, Any]
    """dotted key → value, for the settings that must not change (`fixed_settings`)"""
    tokenizer: Mapping[str, Any]
    """library and version that tokenised the training text"""
    provenance: Mapping[str, Any]
    """versions and hardware when the run was created (provenance.py), and `sources`: SHA-256 of the original text"""
    exported: ExportInfo | None = None
    """only of an exported model"""


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
        write_text(folder / INCOMPLETE, "nothing has been saved yet\n")
        for name in ("run.json", CHECKSUMS):  # of a run that was killed before its first checkpoint
            (folder / name).unlink(missing_ok=True)
        dataset.codecs.save(folder)
        write_text(folder / HISTORY, "")
        write_config(folder, config)
        training, manifest = config.training, dataset.manifest
        recorded = manifest.get("tokenizer", {})
        tokenizer = {key: recorded[key] for key in ("library", "version") if key in recorded}
        origin = {
            **provenance(device=device, threads=training.num_threads, shards=training.shards),
            "sources": manifest.get("sources", {}),
        }
        metadata = RunMetadata(secrets.token_hex(8), fixed_settings(config), tokenizer, origin)
        write_metadata(folder, metadata)
        write_checksums(folder, ["run.json", *codec_files(config.data)])
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
            verify_files(folder)
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
        data = self.config.data.model_copy(update={"to": language})
        config = self.config.model_copy(update={"data": data})
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
            return read_checksums(folder).get(name, str(folder))

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
            return self._make_model()

    def uninitialized_model(self) -> "Transformer":
        """Returns a model, on the CPU, with arbitrary weights, to be loaded. Draws no random numbers.

        Raises MemoryShortage as `new_model` does.
        """
        from transformer_cli.model.transformer import UninitializedWeights

        with UninitializedWeights():
            return self._make_model()

    def _make_model(self) -> "Transformer":
        from transformer_cli.model.size import check_model_memory
        from transformer_cli.model.transformer import Transformer

        sizes = (len(self.codecs.source), len(self.codecs.target))
        check_model_memory(self.config.model, sizes, prefix=f"{self.folder}: ")
        model = Transformer(
            self.config.model,
            source_vocabulary=len(self.codecs.source),
            target_vocabulary=len(self.codecs.target),
            pad_id=PAD,
        )
        for part in self.config.training.freeze:
            model.get_submodule(part).requires_grad_(False)
        return model

    def checkpoint(self, pointer: str) -> Path:
        """Returns the folder to which `best`, `last` or `average` points. Raises CheckpointError if there is none."""
        self.refuse_exported()
        path = self.folder / pointer
        try:
            name = read_text(path).removesuffix("\n")
        except MissingFile:
            missing = f"{self.folder}: no {pointer} checkpoint yet; `tfm train` writes one"
            raise CheckpointError(f"{missing}; if it was lost, {RESTORE_HINT}") from None
        except FileError as error:
            raise CheckpointError(f"{error}; {RESTORE_HINT}") from None
        folder = self.folder / "checkpoints" / name
        if not CHECKPOINT.fullmatch(name) or not folder.is_dir():
            raise CheckpointError(
                f"{path} names {preview(name)}, which is not a checkpoint in checkpoints/; {RESTORE_HINT}"
            )
        return folder

    def set_pointer(self, pointer: str, name: str) -> None:
        """Let `best`, `last` or `average` point to a checkpoint. Raises CheckpointError if it does not exist."""
        if pointer not in POINTERS:
            raise CheckpointError(f"{pointer!r} is not a pointer; the pointers are {', '.join(POINTERS)}")
        if not CHECKPOINT.fullmatch(name) or not (self.folder / "checkpoints" / name).is_dir():
            raise CheckpointError(f"{self.folder}: no checkpoint {preview(name)} for {pointer} to point to")
        write_text(self.folder / pointer, f"{name}\n")
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
            return [json.loads(line) for line in read_text(self.folder / HISTORY).splitlines()]

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace history.jsonl. Raises CheckpointError as `refuse_if_gone` does."""
        self.refuse_if_gone()
        write_text(self.folder / HISTORY, "".join(f"{json.dumps(entry)}\n" for entry in entries))


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """Returns the folder of a run, given its name under runs_dir or its path; or a pointer in it, such as demo/last.

    Raises CheckpointError. None: the newest run, which `latest` names, or if it names none, the only run.
    """
    runs_dir = Path(runs_dir)
    known = run_names(runs_dir)
    if name is None:
        return _newest(runs_dir, known)
    places = [runs_dir / name, Path(name)]
    try:
        folder = next((path for path in places if path.is_dir() or is_pointer(path)), None)
    except OSError as error:  # the name is too long for a file, or a folder above it may not be read
        raise CheckpointError(f"{places[0]}: {error.strerror}; {runs_dir}/ has {', '.join(known) or 'none'}") from None
    if folder is None:
        place = places["/" in str(name) or places[1].is_file()]
        what = "a file, not the folder of a run" if place.is_file() else "no such run"
        raise CheckpointError(f"{place}: {what}; {runs_dir}/ has {', '.join(known) or 'none'}")
    return folder


def is_pointer(path: Path) -> bool:
    """Whether a path is a run's pointer to a checkpoint, such as runs/demo/last."""
    return path.name in POINTERS and path.is_file() and path.with_name("run.json").is_file()


def _newest(runs_dir: Path, known: Sequence[str]) -> Path:
    latest = runs_dir / "latest"
    try:
        name = read_text(latest).removesuffix("\n")
        if NAME.fullmatch(name) and (runs_dir / name).is_dir():
            return runs_dir / name
        problem = f"{latest} names {preview(name)}, but there is no such run"
    except FileError as error:
        problem = str(error)
    if not known:
        raise CheckpointError(f"{runs_dir}/: no run yet; `tfm train` makes one (or name one)")
    if len(known) > 1:
        raise CheckpointError(f"{problem}; name a run: {', '.join(known)}")
    return runs_dir / known[0]


def write_latest(run: Path) -> None:
    """Let `latest`, in the folder above the run's, name this run."""
    path = run.with_name("latest")
    if _bytes_or_none(path) != f"{run.name}\n".encode():
        write_text(path, f"{run.name}\n")


def move_latest(old: Path, new: Path) -> None:
    """Let `latest` name a renamed run by its new name, if it named this run."""
    if _bytes_or_none(old.with_name("latest")) == f"{old.name}\n".encode():
        write_latest(new)


def run_names(runs_dir: Path) -> list[str]:
    """Returns the names of the runs in a folder."""
    return sorted(path.parent.name for path in runs_dir.glob("*/run.json"))


def retry_if_moved(path: Path, read: Callable[[], Result]) -> Result:
    """Call `read`, which follows the pointer `path`; if it fails and training has moved the pointer, call it again.

    Training deletes a checkpoint as soon as no pointer names it, even if another process is reading it.
    """
    while True:
        before = _bytes_or_none(path)
        try:
            return read()
        except CheckpointError:
            if _bytes_or_none(path) == before:
                raise


def _bytes_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def free_name(folder: Path) -> str:
    """Returns a free name for another run beside `folder`, such as multi30k-2 for multi30k."""
    names = (f"{folder.name[: MAX_NAME_CHARS - len(str(number)) - 1]}-{number}" for number in count(2))
    return next(name for name in names if not folder.with_name(name).exists())


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


def training_lock(folder: Path) -> Path:
    """Returns the file that is locked while a process trains the run in a folder, which need not exist yet.

    For a symbolic link, returns the lock of the folder that it leads to.
    """
    real = folder.resolve() if folder.is_symlink() else folder
    return real.with_name(f".{real.name}.lock")


def is_new(folder: Path) -> bool:
    """Whether a folder is absent or has no complete checkpoint, so that a new run can be trained in it.

    Raises CheckpointError if the folder is an exported model's, or if run.json or `last` of a trained run is gone.
    """
    if is_exported(folder):
        raise CheckpointError(f"{folder}: {IS_EXPORTED}")
    is_begun = (folder / "run.json").is_file() or any(folder.glob("checkpoints/*-*"))
    has_pointer = any(os.path.lexists(folder / name) for name in POINTERS)
    if not has_pointer and ((folder / INCOMPLETE).is_file() or not is_begun):
        return True
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name} is missing, but the run has been trained; {RESTORE_HINT}")
    return False


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported model's, by its weights."""
    return os.path.lexists(folder / EXPORTED_WEIGHTS)  # False for a folder without permission


@contextmanager
def as_checkpoint_error(folder: Path | None = None) -> Iterator[None]:
    """Turn FileError and DataError into CheckpointError with a remedy. folder: the run's, for the message."""
    try:
        yield
    except (DataError, FileError) as error:
        prefix = f"{folder}: damaged run: " if folder else ""
        remedy = EXPORT_AGAIN_HINT if folder and is_exported(folder) else RESTORE_HINT
        raise CheckpointError(f"{prefix}{error}; {remedy}") from None


def write_metadata(folder: Path, metadata: RunMetadata) -> None:
    """Write run.json."""
    entries = {key: value for key, value in asdict(metadata).items() if value is not None}
    write_json(folder / "run.json", {"format_version": FORMAT_VERSION, **entries})


def read_metadata(folder: Path) -> RunMetadata:
    """Read run.json. Raises CheckpointError if it is missing, damaged or of another format version."""
    if not (folder / "run.json").exists():
        raise CheckpointError(f"{folder}: no run here (run.json is missing); `tfm train` makes one")
    with as_checkpoint_error(folder if is_exported(folder) else None):
        path = folder / "run.json"
        value = read_verified_json(path)
        version, exported = value.pop("format_version", None), value.pop("exported", None)
    if version != FORMAT_VERSION:
        remedy = "export it again" if exported else "train it again"
        raise CheckpointError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; {remedy}")
    with as_checkpoint_error(folder if exported else None):
        return from_json(RunMetadata, {**value, "exported": exported}, path)


def write_config(folder: Path, config: Config) -> None:
    """Replace config.yaml."""
    write_text(folder / "config.yaml", dump_config(config))


def read_config(folder: Path, metadata: RunMetadata) -> Config:
    """Read config.yaml.

    Raises ConfigError if it is not a valid config, FileError if it is missing or fixed settings have been changed.
    """
    path = folder / "config.yaml"
    config = parse_config(read_text(path, max_bytes=MAX_CONFIG_BYTES), path)
    before, now = metadata.settings, fixed_settings(config)
    if changed := [key for key in now if key in before and before[key] != now[key]]:  # an older run lacks some
        lines = "; ".join(f"{key}: {inline_yaml(before.get(key))} → {inline_yaml(now[key])}" for key in changed)
        raise FileError(f"{path}: settings of the run have been changed ({lines}); put the old ones back")
    return config


def fixed_settings(config: Config) -> dict[str, Any]:
    """Returns the settings that must not change once a run is created, by their dotted keys.

    The end of training is among them if the learning rates depend on it.
    """
    settings, training = settings_by_key(config), config.training
    end = {"training.epochs": None, "training.max_steps": None, f"training.{training.end_key}": training.end[1]}
    fixed = {key: value for key, value in settings.items() if key in FIXED_KEYS}
    return fixed | end if training.needs_horizon else fixed
