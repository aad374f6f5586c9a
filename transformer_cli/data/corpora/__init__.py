"""Where parallel text comes from, a file for each kind of corpus: Multi30k, the user's own files, embedded captions.

A new kind is a file here with one function, from the settings to a Corpus, and its name in `open_corpus`.
"""

import logging
from pathlib import Path

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpora.corpus import Corpus
from transformer_cli.data.corpora.embedded import open_captions
from transformer_cli.data.corpora.multi30k import open_multi30k
from transformer_cli.data.corpora.own_files import open_files

__all__ = ["Corpus", "open_corpus"]

log = logging.getLogger(__name__)


def open_corpus(data: DataConfig, *, source_dir: Path | None = None) -> Corpus:
    """Find, fetch if need be, and verify the text that `data` names.

    source_dir: a folder with the files of Multi30k; a warning says that it is ignored for any other corpus.

    Raises DataError if a file is missing, unreadable or not the expected one, DownloadError if it could not be fetched.
    A pass over a split raises DataError at text that is not UTF-8, at an empty side (unless `data.skip_empty`), if the
    two sides differ in length, if there is not one pair, and at damaged gzip.
    """
    if data.corpus == "multi30k":
        return open_multi30k(data, source_dir=source_dir)
    if source_dir is not None:
        log.warning("--source-dir %s is ignored: it is for corpus: multi30k, not %s", source_dir, data.corpus)
    if data.corpus == "files":
        return open_files(data)
    return open_captions(data)
