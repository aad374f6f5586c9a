"""Text that finetuning needs beside the dataset. It is copied into the run's folder when the run is made.

So a run that is resumed needs neither the user's files nor the run whose weights it began with.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transformer_cli.adapters.corpora.formats import pair_files, read_texts, require_files
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, EncodedSplit, Pair, Side
from transformer_cli.errors import DataError
from transformer_cli.runs.checkpoints import Checkpoint
from transformer_cli.runs.run import Run
from transformer_cli.system.files import read_checksums, write_checksums, write_text
from transformer_cli.text.codec import SIDES, Codecs
from transformer_cli.text.lines import read_lines
from transformer_cli.training.callbacks import Callback
from transformer_cli.training.texts import UsableSplit, fitting_rows, usable_split


class CopiedText(Callback):
    """The pairs that training.extra_valid or training.replay names, whichever it carries out: files, or a split."""

    @property
    def setting(self) -> str:
        """The name of the setting: extra_valid or replay. The copies' names begin with it, as in
        extra_valid.source.txt."""
        return self.implements.removeprefix("training.")

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read the pairs. Raises DataError for files that cannot be read, or of which no pair fits the model."""
        names = getattr(config.training, self.setting)
        self.pairs = [pair for pair in self._named(names, config, dataset) if all(map(str.strip, pair))]
        if not self.pairs:
            raise DataError(f"training.{self.setting}: {', '.join(names)}: no pair of sentences; name other text")
        for pair in self.pairs:  # one that fits will do: all are encoded when training begins
            alone = encode_sides([[side] for side in pair], dataset.codecs)
            if len(alone.rows_within(config.model.max_length)):
                break
        fitting_rows(alone, self.setting, config.model.max_length)

    def on_new_run(self, run: Run, start: Checkpoint) -> None:
        """Write the pairs into the run's folder, with their sums."""
        names = [f"{self.setting}.{side}.txt" for side in SIDES]
        for name, lines in zip(names, zip(*self.pairs, strict=True), strict=True):
            write_text(run.folder / name, "".join(f"{line}\n" for line in lines))
        write_checksums(run.folder, [*read_checksums(run.folder), *names])
        del self.pairs

    def load_split(self, run: Run) -> UsableSplit:
        """Returns the pairs that a run has kept, encoded. Raises DataError if they are gone."""
        split = encode_sides(copied_lines(run, self.setting), run.codecs)
        return usable_split(split, self.setting, run.config.model.max_length)

    def read(self, paths: Sequence[Path], config: Config) -> Iterable[Pair]:
        """Returns the pairs in some files, which exist. Raises DataError."""
        return ((source, target) for source, target, _ in read_texts(pair_files(paths, config.data), config.data))

    def _named(self, names: Sequence[str], config: Config, dataset: Dataset) -> Iterable[Pair]:
        if len(names) == 1 and names[0] in dataset.manifest["splits"]:
            return zip(*(dataset.text(names[0], side) for side in SIDES), strict=True)
        paths = [Path(name) for name in names]
        require_files((f"training.{self.setting}", path) for path in paths)
        return self.read(paths, config)


def copied_lines(run: Run, setting: str) -> tuple[list[str], list[str]]:
    """Returns source and target of a text that a run has kept. Raises DataError."""
    source, target = (list(read_lines(run.folder / f"{setting}.{side}.txt")) for side in SIDES)
    return source, target


def encode_sides(sides: Iterable[Iterable[str]], codecs: Codecs) -> EncodedSplit:
    """Returns a text, source and target, encoded."""
    return EncodedSplit(
        *(
            Side.of([codec.encode(line).ids for line in lines])
            for codec, lines in zip((codecs.source, codecs.target), sides, strict=True)
        )
    )
