"""What a run and an exported run have in common: all that translation needs of a folder, apart from the weights."""

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.data.codec import Codecs
from transformer_cli.data.subwords import SENTENCEPIECE_VERSION
from transformer_cli.data.words import SPACY_VERSION
from transformer_cli.runs.identity import Identity

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened(ABC):
    """An opened folder. `Run` and `Exported` are the two kinds."""

    folder: Path
    config: Config
    codecs: Codecs
    identity: Identity

    @property
    @abstractmethod
    def best_name(self) -> str:
        """The name of the checkpoint whose weights translate, such as step-0004540. Raises CheckpointError."""

    def say_other_tokenizer(self) -> None:
        """Warn if text is now cut into tokens by another version of the library than the training text was."""
        library, trained_with = (self.identity.tokenizer.get(key) for key in ("library", "version"))
        now = {"spacy": SPACY_VERSION, "sentencepiece": SENTENCEPIECE_VERSION}.get(str(library))
        if now not in (None, trained_with):
            log.warning(
                "%s: %s %s cut its training text, and %s cuts text now: some tokens, and so translations, may differ; "
                "`pip install %s==%s` if that matters",
                *(self.folder, library, trained_with, now, library, trained_with),
            )
