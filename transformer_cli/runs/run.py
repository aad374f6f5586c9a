"""A run's folder: how it is made, opened and found, what stays as it was begun, its history and its pointers.

runs/multi30k/
    run.json                        an id, the settings that training began with, what cut the text, and the provenance
    SHA256SUMS                      the sums of run.json, of the codecs' files and of the text that training keeps
    config.yaml                     the whole config, with the precision and the data's fingerprint that were chosen;
                                    training rewrites it, and so may a user
    source.vocab.txt target.vocab.txt target.detokenizer.json     the codecs: a copy of the dataset's (of subwords:
    source.subwords.model target.subwords.model)
    extra_valid.source.txt replay.target.txt … the text that training.extra_valid and training.replay named when the run
    was begun history.jsonl curves.png        one line per validation; the same as a picture
    tensorboard/                    the same as an event file, if the config says so
    evaluations.jsonl               what `tfm evaluate` found, one line per split and call (see provenance.py)
    checkpoints/step-0004540/       what was saved after step 4540 (see checkpoints.py)
    best  last                      text files that name a checkpoint of this run
    average                         likewise, if training averages weights
    .incomplete                     exists until `last` is written for the first time: nothing has been saved yet
runs/latest                         a text file that names the newest run

exports/multi30k-int8/              an exported run: the same, with weights in CTranslate2's format, and not trained on
    run.json                        the run's, and as `exported` what was made of it
    SHA256SUMS                      the sums of all files that stay as they are
    config.yaml                     its section `decoding` says how the model translates
    source.vocab.txt target.vocab.txt target.detokenizer.json     as above
    model.bin config.json *_vocabulary.json     what CTranslate2 reads
    README.md                       how to use it from Python without tfm
    evaluations.jsonl               as above

Knows nothing of what a checkpoint holds, or how weights are written. Imports torch only where a model is made.
"""

import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transformer_cli.config.load import MAX_CONFIG_BYTES, dump_config, from_json, parse_config, settings_by_key
from transformer_cli.config.schema import MAX_NAME_CHARS, NAME, Affects, Config, DataConfig, keys_affecting
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import CheckpointError, ConfigError, DataError, FileError, MissingFile
from transformer_cli.model.size import check_model_memory
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
EXPORTED_WEIGHTS = "model.bin"  # the weights of an exported run
HISTORY = "history.jsonl"
INCOMPLETE = ".incomplete"
STEP, AVERAGE = (rf"{kind}-(?:\d{{7}}|[1-9]\d{{7,}})" for kind in ("step", "average"))
CHECKPOINT = re.compile(f"{STEP}(?:-unvalidated)?|{AVERAGE}")  # what a pointer may name
POINTERS = ("best", "last", "average")
RESTORE_HINT = "restore it, or give `tfm train --fresh` to move this run aside and begin anew"
EXPORT_AGAIN_HINT = "restore it, or delete the folder and export the run again"
IS_EXPORTED = (
    "an exported model, which translates and is judged, but cannot be trained or looked into; name the run that it was "
    "made from"
)
EDITABLE_FILES = ("config.yaml", "README.md")  # in an exported run
FIXED_KEYS = keys_affecting(Affects.DATASET, Affects.CODEC, Affects.MODEL, Affects.TRAINING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportInfo:
    """What an exported model is."""

    run: str
    """the name of the run"""
    checkpoint: str
    """the checkpoint whose weights it has"""
    quantization: str
    """how they are kept: float32, float16, bfloat16, int16 or int8"""
    positions: int
    """the most positions that a sentence may take, <sos> and <eos> included"""
    written_by: str
    """the version of CTranslate2"""


@dataclass(frozen=True)
class RunMetadata:
    """What run.json says."""

    id: str
    """16 hexadecimal digits, by which its exports know it, and training notices that another run took its folder"""
    settings: Mapping[str, Any]
    """the settings that stay as they are, by their dotted keys"""
    tokenizer: Mapping[str, Any]
    """what cut the training text, as the dataset's manifest says it: library, version"""
    provenance: Mapping[str, Any]
    """by what it was begun (provenance.py), and `sources`: the SHA-256 of each file of its text"""
    exported: ExportInfo | None = None
    """None: it is trained here"""


@dataclass(frozen=True)
class Run:
    """An opened run, trained or exported. Everything that translation needs is in its folder."""

    folder: Path
    config: Config = field(repr=False)
    codecs: Codecs = field(repr=False)
    metadata: RunMetadata = field(repr=False)

    @staticmethod
    def create(folder: Path, config: Config, dataset: Dataset, *, device: str | None = None) -> "Run":
        """Make the folder of a new run, in which nothing has been saved yet (see `is_new`).

        device: what it will be trained on, by `device_name`.
        """
        assert is_new(folder), folder
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / INCOMPLETE, "nothing has been saved yet\n")
        for name in ("run.json", CHECKSUMS):  # of a run that was killed before its first save
            (folder / name).unlink(missing_ok=True)
        dataset.codecs.save(folder)
        write_text(folder / HISTORY, "")
        write_config(folder, config)
        cut_by = dataset.manifest.get("tokenizer", {})
        tokenizer = {key: cut_by[key] for key in ("library", "version") if key in cut_by}
        training = config.training
        made_by = {
            **provenance(device=device, threads=training.num_threads, shards=training.shards),
            "sources": dataset.manifest.get("sources", {}),
        }
        metadata = RunMetadata(secrets.token_hex(8), fixed_settings(config), tokenizer, made_by)
        write_metadata(folder, metadata)
        write_checksums(folder, ["run.json", *codec_files(config.data)])
        return Run(folder, config, Codecs.load(folder, config.data), metadata)

    @staticmethod
    def open(folder: Path) -> "Run":
        """Open a run's folder. Raises CheckpointError if it is missing, damaged or of another version, ConfigError."""
        folder = Path(folder)
        metadata = read_metadata(folder)
        with as_checkpoint_error(folder):
            verify_files(folder)
            config = read_config(folder, metadata)
            return Run(folder, config, Codecs.load(folder, config.data), metadata)

    @staticmethod
    def load(run: "str | Path | Run | None", runs_dir: Path = Path("runs")) -> "Run":
        """Returns a run that is opened, or opens it as `find_run` finds it. Raises as `find_run` and `open` do."""
        return run if isinstance(run, Run) else Run.open(find_run(run, runs_dir))

    def for_target(self, language: str | None) -> "Run":
        """Returns the run of which each line asks for a language (None: as the run itself says). Raises ConfigError."""
        if language is None:
            return self
        data = self.config.data.model_copy(update={"to": language})
        config = self.config.model_copy(update={"data": data})
        return replace(self, config=config, codecs=self.codecs.for_target(language))

    @property
    def exported(self) -> ExportInfo | None:
        """What it was exported as; None if it is a run that is trained."""
        return self.metadata.exported

    @property
    def best_checkpoint_name(self) -> str:
        """The name of the checkpoint whose weights translate, such as step-0004540. Raises CheckpointError."""
        return self.exported.checkpoint if self.exported else self.checkpoint("best").name

    @property
    def weights_sha256(self) -> str:
        """The SHA-256 of the file of the weights that translate. Raises CheckpointError."""
        folder, name = (
            (self.folder, EXPORTED_WEIGHTS) if self.exported else (self.checkpoint("best"), "model.safetensors")
        )
        with as_checkpoint_error(self.folder):
            return read_checksums(folder).get(name, str(folder))

    def warn_if_tokenizer_changed(self) -> None:
        """Warn if text is now cut into tokens by another version of the library than the training text was."""
        library, trained_with = (self.metadata.tokenizer.get(key) for key in ("library", "version"))
        now = {"spacy": SPACY_VERSION, "sentencepiece": SENTENCEPIECE_VERSION}.get(str(library))
        if now not in (None, trained_with):
            log.warning(
                "%s: %s %s cut its training text, and %s cuts text now: some tokens, and so translations, may differ; "
                "`pip install %s==%s` if that matters",
                *(self.folder, library, trained_with, now, library, trained_with),
            )

    def new_model(self) -> "Transformer":
        """Returns the untrained model, on the CPU; every call draws the same weights from the run's seed.

        Pretrained vectors are not in it yet. Torch's random state is left as it was; other devices' is not touched.
        Raises MemoryShortage, before anything is built, if the model is larger than the memory that is free.
        """
        import torch

        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.config.training.seed)
            return self._make_model()

    def uninitialized_model(self) -> "Transformer":
        """Returns a model, on the CPU, whose weights are arbitrary until they are loaded. Draws no random numbers.

        Raises MemoryShortage as `new_model` does.
        """
        from transformer_cli.model.transformer import UninitializedWeights

        with UninitializedWeights():
            return self._make_model()

    def _make_model(self) -> "Transformer":
        sizes = (len(self.codecs.source), len(self.codecs.target))
        check_model_memory(self.config.model, sizes, prefix=f"{self.folder}: ")
        from transformer_cli.model.transformer import Transformer

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
        """Returns the folder that `best`, `last` or `average` names. Raises CheckpointError if it names none."""
        self.refuse_exported()
        path = self.folder / pointer
        try:
            name = read_text(path).removesuffix("\n")
        except MissingFile:
            missing = f"{self.folder}: no {pointer} checkpoint yet; let `tfm train` reach one"
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
        """Let `best`, `last` or `average` name a checkpoint. Raises CheckpointError if it is not there."""
        if pointer not in POINTERS:
            raise CheckpointError(f"{pointer!r} names no checkpoint; {', '.join(POINTERS)} do")
        if not CHECKPOINT.fullmatch(name) or not (self.folder / "checkpoints" / name).is_dir():
            raise CheckpointError(f"{self.folder}: checkpoints/ has no {preview(name)} for {pointer} to name")
        write_text(self.folder / pointer, f"{name}\n")
        if pointer == "last":
            (self.folder / INCOMPLETE).unlink(missing_ok=True)

    def has_checkpoint(self, pointer: str) -> bool:
        """Whether the file `best` or `last`, which names a checkpoint, exists."""
        return (self.folder / pointer).is_file()

    def refuse_exported(self) -> None:
        """Raises CheckpointError if the run is an exported one, which has neither checkpoints nor a history."""
        if self.exported:
            raise CheckpointError(f"{self.folder}: {IS_EXPORTED}")

    def refuse_if_gone(self) -> None:
        """Raises CheckpointError, which says where the last save is, if the folder was moved, deleted or replaced."""
        if _run_id(self.folder) == self.metadata.id:
            return
        others = (self.folder.with_name(name) for name in run_names(self.folder.parent))
        moved = next((folder for folder in others if _run_id(folder) == self.metadata.id), None)
        raise CheckpointError(
            f"{self.folder}: the run that is trained is not here any more, so nothing is saved; its last save is "
            f"{f'in {moved}' if moved else 'where the folder is now, if it was moved'}"
        )

    def history(self) -> list[dict[str, Any]]:
        """Returns the validations so far, oldest first, as history.jsonl has them. Raises CheckpointError."""
        self.refuse_exported()
        with as_checkpoint_error():
            return [json.loads(line) for line in read_text(self.folder / HISTORY).splitlines()]

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace the whole history. Raises CheckpointError as `refuse_if_gone` does."""
        self.refuse_if_gone()
        write_text(self.folder / HISTORY, "".join(f"{json.dumps(entry)}\n" for entry in entries))


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """Find a run by its name under runs_dir or by its path, or (None) the newest. Raises CheckpointError.

    If `latest` does not name a run, the only one that is there is the newest.
    """
    runs_dir = Path(runs_dir)
    known = run_names(runs_dir)
    if name is None:
        return _newest(runs_dir, known)
    places = [runs_dir / name, Path(name)]
    try:
        folder = next((path for path in places if path.is_dir()), None)
    except OSError as error:  # no file has so long a name, or what is above it is closed
        raise CheckpointError(f"{places[0]}: {error.strerror}; {runs_dir}/ has {', '.join(known) or 'none'}") from None
    if folder is None:
        place = places["/" in str(name) or places[1].is_file()]
        what = "a file, and not the folder of a run" if place.is_file() else "no such run"
        raise CheckpointError(f"{place}: {what}; {runs_dir}/ has {', '.join(known) or 'none'}")
    return folder


def _newest(runs_dir: Path, known: Sequence[str]) -> Path:
    latest = runs_dir / "latest"
    try:
        name = read_text(latest).removesuffix("\n")
        if NAME.fullmatch(name) and (runs_dir / name).is_dir():
            return runs_dir / name
        problem = f"{latest} names {preview(name)}, which is not a run"
    except FileError as error:
        problem = str(error)
    if not known:
        raise CheckpointError(f"{runs_dir}/: no run yet; `tfm train` makes one (or name one)")
    if len(known) > 1:
        raise CheckpointError(f"{problem}; name a run: {', '.join(known)}")
    return runs_dir / known[0]


def write_latest(run: Path) -> None:
    """Let `latest`, beside the folder of a run, name this run."""
    path = run.with_name("latest")
    if _bytes_or_none(path) != f"{run.name}\n".encode():
        write_text(path, f"{run.name}\n")


def move_latest(old: Path, new: Path) -> None:
    """Let `latest` name a run that was moved to another name, if it named this run before."""
    if _bytes_or_none(old.with_name("latest")) == f"{old.name}\n".encode():
        write_latest(new)


def run_names(runs_dir: Path) -> list[str]:
    """Returns the names of the runs in a folder."""
    return sorted(path.parent.name for path in runs_dir.glob("*/run.json"))


def retry_if_moved(path: Path, read: Callable[[], Result]) -> Result:
    """Call a function that follows the pointer `path`; if it fails, and the pointer has moved meanwhile, call it again.

    Training deletes a checkpoint as soon as no pointer names it, while somebody else may be reading it.
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
    """Returns a name that no run beside `folder` has: multi30k-2 for multi30k, or multi30k-3 if that is taken."""
    names = (f"{folder.name[: MAX_NAME_CHARS - len(str(number)) - 1]}-{number}" for number in count(2))
    return next(name for name in names if not folder.with_name(name).exists())


def differing_codecs(one: DataConfig, other: DataConfig) -> str:
    """Returns the settings in which the codecs of two configs differ, for an error; "" if there are none."""
    ours, theirs = one.codec_settings, other.codec_settings
    differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]  # each kind of tokens has own keys
    return "; ".join(f"{key}: {inline_yaml(ours[key])} and {inline_yaml(theirs[key])}" for key in differing)


def find_tokenizer_run(data: DataConfig, runs_dir: Path = Path("runs")) -> Path | None:
    """Returns the folder of the run whose codecs `data.tokenizer_from` wants, or None if it wants none.

    Raises CheckpointError if there is no such run, ConfigError if its codecs are not what `data` describes.
    """
    if data.tokenizer_from is None:
        return None
    run = Run.load(data.tokenizer_from, runs_dir)
    if differing := differing_codecs(run.config.data, data):
        raise ConfigError(
            f"data.tokenizer_from: {data.tokenizer_from}: its codecs are not as the config says ({differing}); "
            "set the same"
        )
    run.warn_if_tokenizer_changed()
    return run.folder


def training_lock(folder: Path) -> Path:
    """Returns the file that is locked as long as a process trains the run in a folder, which may not be there yet.

    Of a link, it is that of the real folder: whoever trains it by another name trains the same run.
    """
    real = folder.resolve() if folder.is_symlink() else folder
    return real.with_name(f".{real.name}.lock")


def is_new(folder: Path) -> bool:
    """Whether training may begin in a run's folder, because the folder is absent or no save was completed in it.

    Raises CheckpointError if more is there but run.json or `last` is gone: then the run is damaged, not new; and
    if the folder is an exported run's.
    """
    if is_exported(folder):
        raise CheckpointError(f"{folder}: {IS_EXPORTED}")
    is_begun = (folder / "run.json").is_file() or any(folder.glob("checkpoints/*-*"))
    if ((folder / INCOMPLETE).is_file() or not is_begun) and not any(
        os.path.lexists(folder / name) for name in POINTERS
    ):
        return True  # never begun, or killed before the first save was complete
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name} is missing, but the run has been trained; {RESTORE_HINT}")
    return False


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported run's, by its weights."""
    return os.path.lexists(folder / EXPORTED_WEIGHTS)  # in a folder that is closed there is none


@contextmanager
def as_checkpoint_error(folder: Path | None = None) -> Iterator[None]:
    """What is wrong with a run's file, a FileError or DataError, becomes a CheckpointError with a remedy.

    folder: the run's, which the error then names.
    """
    try:
        yield
    except (DataError, FileError) as error:
        whose = f"{folder}: damaged run: " if folder else ""
        raise CheckpointError(
            f"{whose}{error}; {EXPORT_AGAIN_HINT if folder and is_exported(folder) else RESTORE_HINT}"
        ) from None


def write_metadata(folder: Path, metadata: RunMetadata) -> None:
    """Write run.json; it has `exported` only in an exported run."""
    about = {key: value for key, value in asdict(metadata).items() if value is not None}
    write_json(folder / "run.json", {"format_version": FORMAT_VERSION, **about})


def read_metadata(folder: Path) -> RunMetadata:
    """Read run.json. Raises CheckpointError if it is missing, damaged, or of another format version."""
    if not (folder / "run.json").exists():
        raise CheckpointError(f"{folder}: no run here (run.json is missing); `tfm train` makes one")
    with as_checkpoint_error(folder if is_exported(folder) else None):
        path = folder / "run.json"
        value = read_verified_json(path)
        version, exported = value.pop("format_version", None), value.pop("exported", None)
    if version != FORMAT_VERSION:
        again = "export it again" if exported else "train it again"
        raise CheckpointError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; {again}")
    with as_checkpoint_error(folder if exported else None):
        return from_json(RunMetadata, {**value, "exported": exported}, path)


def _run_id(folder: Path) -> str | None:
    """Returns the id of the run that is trained in a folder, or None if no undamaged one is there."""
    try:
        metadata = read_metadata(folder)
    except CheckpointError:
        return None
    return None if metadata.exported else metadata.id


def write_config(folder: Path, config: Config) -> None:
    """Replace config.yaml."""
    write_text(folder / "config.yaml", dump_config(config))


def read_config(folder: Path, metadata: RunMetadata) -> Config:
    """Read config.yaml.

    Raises ConfigError if it is not a config, FileError if it is missing or has other lasting settings than the run.
    """
    path = folder / "config.yaml"
    config = parse_config(read_text(path, max_bytes=MAX_CONFIG_BYTES), path)
    now = fixed_settings(config)
    begun = metadata.settings
    if changed := [key for key in now if key in begun and begun[key] != now[key]]:  # an older run lacks some
        lines = "; ".join(f"{key}: {inline_yaml(begun.get(key))} → {inline_yaml(now[key])}" for key in changed)
        raise FileError(f"{path}: not the settings that the run was begun with ({lines}); put the old ones back")
    return config


def fixed_settings(config: Config) -> dict[str, Any]:
    """Returns the settings that stay as they were when the run was begun: all but those that name places.

    The end of training is one of them where learning rates depend on it.
    """
    found, training = settings_by_key(config), config.training
    end = {
        "training.epochs": training.epochs if training.max_steps is None else None,
        "training.max_steps": training.max_steps,
    }
    return {key: found[key] for key in found if key in FIXED_KEYS} | (end if training.needs_horizon else {})
