"""Text that finetuning needs besides the dataset. It is copied into the folder of a new run.

So a resumed run needs neither the user's files nor the run that it was initialised from.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transformer_cli.adapters.corpora.formats import pair_files, read_texts, require_files
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, EncodedSplit, Pair, Side, find_dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.checkpoints import Checkpoint
from transformer_cli.runs.folder import as_checkpoint_error
from transformer_cli.runs.run import Run
from transformer_cli.system.files import read_checksums, verify_file, write_checksums, write_text
from transformer_cli.text.codec import SIDES, Codecs
from transformer_cli.text.lines import read_lines
from transformer_cli.training.callbacks import Callback
from transformer_cli.training.texts import SplitRows, usable_split

SPLITS_OF_RUNS = {"extra_valid": "valid", "replay": "train"}  # what is read if a setting names a run


class CopiedText(Callback):
    """The pairs that training.extra_valid or training.replay names, as files, a split of the dataset or a run."""

    @property
    def setting(self) -> str:
        """The setting's name, extra_valid or replay, with which the names of the copies begin."""
        return self.implements.removeprefix("training.")

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read the pairs. Raises DataError for unreadable files, or if no pair fits the model."""
        names = getattr(config.training, self.setting)
        self.pairs = [pair for pair in self._read_named(names, config, dataset, runs_dir) if all(map(str.strip, pair))]
        if not self.pairs:
            raise DataError(f"training.{self.setting}: {', '.join(names)}: no sentence pairs; name other text")
        for pair in self.pairs:  # looks for one that fits; all are encoded when training begins
            encoded_pair = encode_sides([[side] for side in pair], dataset.codecs)
            if len(encoded_pair.rows_within(config.model.max_length)):
                break
        usable_split(encoded_pair, self.setting, config.model.max_length)

    def on_new_run(self, run: Run, checkpoint: Checkpoint) -> None:
        """Write the pairs into the run's folder, and their checksums."""
        names = [f"{self.setting}.{side}.txt" for side in SIDES]
        for name, lines in zip(names, zip(*self.pairs, strict=True), strict=True):
            write_text(run.folder / name, "".join(f"{line}\n" for line in lines))
        write_checksums(run.folder, [*read_checksums(run.folder), *names])
        del self.pairs

    def load_split(self, run: Run) -> SplitRows:
        """Returns the encoded pairs in the run's folder. Raises CheckpointError if they are gone."""
        split = encode_sides(copied_lines(run, self.setting), run.codecs)
        return usable_split(split, self.setting, run.config.model.max_length)

    def read(self, paths: Sequence[Path], config: Config) -> Iterable[Pair]:
        """Returns the pairs in files. Raises DataError."""
        return ((source, target) for source, target, _ in read_texts(pair_files(paths, config.data), config.data))

    def _read_named(self, names: Sequence[str], config: Config, dataset: Dataset, runs_dir: Path) -> Iterable[Pair]:
        if len(names) == 1 and names[0] in dataset.manifest["splits"]:
            return _pairs_of_split(dataset, names[0])
        paths = [Path(name) for name in names]
        for folder in (paths[0], runs_dir / paths[0].name) if len(paths) == 1 and not paths[0].is_file() else ():
            if (folder / "run.json").is_file():
                return _pairs_of_run(Run.open(folder), SPLITS_OF_RUNS[self.setting], config, dataset.folder.parent)
        require_files((f"training.{self.setting}", path) for path in paths)
        return self.read(paths, config)


def _pairs_of_run(run: Run, split: str, config: Config, data_dir: Path) -> Iterable[Pair]:
    """Returns a split of another run's dataset. Raises ConfigError, or DataError if the dataset is gone."""
    ours, theirs = (f"{data.input_language}→{data.output_language}" for data in (config.data, run.config.data))
    if ours != theirs:
        raise ConfigError(f"{run.folder} translates {theirs}, not {ours}; name another run, or a file of pairs")
    return _pairs_of_split(Dataset.open(find_dataset(run.config.data, data_dir)), split)


def _pairs_of_split(dataset: Dataset, split: str) -> Iterable[Pair]:
    return zip(*(dataset.text(split, side) for side in SIDES), strict=True)


def copied_lines(run: Run, setting: str) -> tuple[list[str], list[str]]:
    """Returns the source and target lines in the run's folder, for extra_valid or replay. Raises CheckpointError."""
    paths = [run.folder / f"{setting}.{side}.txt" for side in SIDES]
    with as_checkpoint_error():
        for path in paths:
            verify_file(path)
        source, target = (list(read_lines(path)) for path in paths)
    return source, target


def encode_sides(sides: Iterable[Iterable[str]], codecs: Codecs) -> EncodedSplit:
    """Encode source lines and target lines."""
    both = zip((codecs.source, codecs.target), sides, strict=True)
    return EncodedSplit(*(Side.of([codec.encode(line).ids for line in lines]) for codec, lines in both))
