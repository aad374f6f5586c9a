"""An exported run's folder: a run's codecs and settings, and its best weights in CTranslate2's format.

exports/multi30k-int8/
    export.json                     what it was made from
    SHA256SUMS                      the sums of the files that stay as they are
    config.yaml                     the run's whole config; its section `decoding` says how the model translates
    source.vocab.txt target.vocab.txt target.joins.json     the run's codecs (of subwords: *.subwords.model)
    model.bin config.json *_vocabulary.json     what CTranslate2 reads
    README.md                       how to use it from Python without tfm
    evaluations.jsonl               what `tfm evaluate` found, if it was asked (evaluations.py)

Knows nothing of how the weights are written or used.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from transformer_cli.errors import CheckpointError, DataError, FileError
from transformer_cli.runs.run import EXPORTED, Identity, Run, Translatable, read_config
from transformer_cli.system.files import write_json
from transformer_cli.system.reading import read_json
from transformer_cli.system.sums import check_files, write_sums
from transformer_cli.text.codec import Codecs

FORMAT_VERSION = 2
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
class Exported(Translatable):
    """An opened exported run."""

    facts: Facts

    @staticmethod
    def open(folder: Path) -> "Exported":
        """Open an exported run's folder. Raises CheckpointError if it is damaged or of another version, ConfigError."""
        try:
            check_files(folder)
            value = read_json(folder / EXPORTED)
            version = value["format_version"]
            if version != FORMAT_VERSION:
                raise CheckpointError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; {AGAIN}")
            identity, facts = Identity(**value["made_from"]), Facts(**value["model"])
            config = read_config(folder, identity)
            return Exported(folder, config, Codecs.load(folder, config.data), identity, facts)
        except (DataError, FileError) as error:
            raise CheckpointError(f"{folder}: damaged: {error}; restore it, or {AGAIN}") from None

    @property
    def best_name(self) -> str:
        """See `Translatable`."""
        return self.facts.checkpoint


def write_export(folder: Path, identity: Identity, facts: Facts) -> None:
    """Write export.json, and the sums, when all other files are written. identity: the run's."""
    about = {"format_version": FORMAT_VERSION, "model": asdict(facts), "made_from": asdict(identity)}
    write_json(folder / EXPORTED, about)
    write_sums(folder, sorted(path.name for path in folder.iterdir() if path.name not in MAY_CHANGE))


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported run's."""
    return (folder / EXPORTED).is_file()


def open_any(folder: Path) -> Run | Exported:
    """Open a folder that can translate, of either kind. Raises CheckpointError."""
    return Exported.open(folder) if is_exported(folder) else Run.open(folder)
