"""Where parallel text comes from, with one module per kind: Multi30k, the user's own files, embedded captions.

A new kind of corpus is a module here with one function, from the settings to a Corpus, and a case in `open_corpus`.
"""

import logging
from pathlib import Path

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpora.corpus import Corpus, open_files
from transformer_cli.data.corpora.embedded import open_captions
from transformer_cli.data.corpora.multi30k import open_multi30k

__all__ = ["Corpus", "open_corpus"]

log = logging.getLogger(__name__)


def open_corpus(data: DataConfig, *, source_dir: Path | None = None) -> Corpus:
    """Find, if necessary fetch, and verify the text that `data` names.

    source_dir: a folder with the files of Multi30k; for any other corpus it is ignored with a warning.

    Raises DataError if a file is missing, unreadable or not the expected one, DownloadError if it could not be fetched.
    A pass over a split raises DataError for text that is not UTF-8, for an empty side (unless `data.skip_empty`), for a
    side that is too long (in the training split, such a pair is left out), if the two sides differ in their number of
    lines, if there is no pair at all, and for damaged gzip.
    """
    if data.corpus == "multi30k":
        return open_multi30k(data, source_dir=source_dir)
    if source_dir is not None:
        log.warning("--source-dir %s is ignored: it applies to corpus multi30k, not to %s", source_dir, data.corpus)
    if data.corpus == "files":
        return open_files(data)
    return open_captions(data)
