"""The files that data.files names as a corpus, each line beside that of the other side: no formats and no cleaning."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformer_cli.config.schema import DataConfig, FilePair
from transformer_cli.data.corpus import PairCorpus
from transformer_cli.system.files import sha256_of_file
from transformer_cli.text.lines import truncated_lines, zip_lines


class AlignedFiles:
    """The corpus from which `prepare` makes the same dataset, where each split has two files and nothing is cleaned."""

    rules: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, data: DataConfig) -> None:
        self.checksums = {name: sha256_of_file(path) for name, path in data.texts}
        self._files = {split: pair for split, pair in (data.files or {}).items() if isinstance(pair, FilePair)}

    def write(self, folder: Path) -> tuple[dict[str, int], dict[str, Any]]:
        """See `Corpus.write`."""
        texts = {split: zip_lines(pair.source, pair.target, truncated_lines) for split, pair in self._files.items()}
        return PairCorpus({split: [pair[:2] for pair in text] for split, text in texts.items()}).write(folder)
