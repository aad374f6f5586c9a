"""An exported run's folder: a run's codecs and settings, and its best weights in CTranslate2's format.

exports/multi30k-int8/
    export.json                     what it was made from, and the sums of the files that stay as they are
    config.yaml                     the run's whole config; its section `decoding` says how the model translates
    source.vocab.txt target.vocab.txt target.joins.json     the run's codecs (of subwords: *.subwords.model)
    model.bin config.json source_vocabulary.json target_vocabulary.json     what CTranslate2 reads
    README.md                       how to use it from Python without tfm
    evaluations.jsonl               what `tfm evaluate` found, if it was asked (evaluation/record.py)

Knows nothing of how the weights are written or used.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from transformer_cli.data.codec import Codecs
from transformer_cli.errors import CheckpointError, FileError, MissingFile, TfmError
from transformer_cli.runs.run import EXPORTED, Identity, Opened, Run, read_config
from transformer_cli.system.reading import as_record, look_up
from transformer_cli.system.sums import file_sums, read_sealed, write_sealed

FORMAT_VERSION = 1
AGAIN = "delete the folder and export the run again"
MAY_CHANGE = ("config.yaml", "README.md")


@dataclass(frozen=True)
class Facts:
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
class Exported(Opened):
    """An opened exported run."""

    facts: Facts

    @staticmethod
    def open(folder: Path) -> "Exported":
        """Open an exported run's folder. Raises CheckpointError if it is damaged, or of another format version."""
        identity, facts = read_export(folder)
        try:
            identity.check_files(folder)
            config = read_config(folder, identity)
            return Exported(folder, config, Codecs.load(folder, config.data), identity, facts)
        except TfmError as error:
            raise CheckpointError(f"{folder}: damaged: {error}; restore it, or {AGAIN}") from None

    @property
    def best_name(self) -> str:
        """See `Opened`."""
        return self.facts.checkpoint


def seal_export(folder: Path, identity: Identity, facts: Facts) -> None:
    """Write export.json when all other files are written. identity: the run's."""
    files = file_sums(folder, sorted(path.name for path in folder.iterdir() if path.name not in MAY_CHANGE))
    about = {**asdict(identity), "files": files}
    write_sealed(folder / EXPORTED, {"format_version": FORMAT_VERSION, "model": asdict(facts), **about})


def read_export(folder: Path) -> tuple[Identity, Facts]:
    """Read export.json. Raises CheckpointError."""
    path = folder / EXPORTED
    try:
        value = read_sealed(path)
        version = look_up(value, "format_version", int)
        if version != FORMAT_VERSION:
            raise CheckpointError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; {AGAIN}")
        look_up(value, "sum", str)
        mappings: list[Mapping[str, object]] = [look_up(value, key, dict) for key in ("settings", "tokenizer", "files")]
        return Identity(look_up(value, "id", str), *mappings), as_record(Facts, look_up(value, "model", dict))
    except MissingFile:
        raise CheckpointError(
            f"{folder}: no exported run here ({EXPORTED} is missing); `tfm export` makes one"
        ) from None
    except FileError as error:
        raise CheckpointError(f"{error}; restore it, or {AGAIN}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}; restore it, or {AGAIN}") from None


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported run's."""
    return (folder / EXPORTED).is_file()


def open_any(folder: Path) -> Run | Exported:
    """Open a folder that can translate, of either kind. Raises CheckpointError."""
    return Exported.open(folder) if is_exported(folder) else Run.open(folder)
