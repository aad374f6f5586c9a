"""Finds, downloads and verifies the files of Multi30k.

The only importer of requests, and only when a file is downloaded.
"""

import hashlib
import logging
import os
from functools import cache
from pathlib import Path

import platformdirs

from transformer_cli.config.schema import FilePair
from transformer_cli.errors import DataError, DownloadError
from transformer_cli.system.files import atomic_file, sha256_of_file
from transformer_cli.system.progress import bar

ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
FOLDER_VARIABLE = "TFM_MULTI30K_DIR"
OFFLINE_REMEDY = (
    f"use a folder that holds the files (--multi30k-dir FOLDER or {FOLDER_VARIABLE}), text of your own (data.corpus: "
    "files with data.files, as `tfm config` shows them), or the embedded German–English corpus (--config demo-captions)"
)
TIMEOUT_S = 20.0
BACKOFF_FACTOR = 1.0  # of urllib3, which pauses twice as many seconds before the third attempt
RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)
TEST_SETS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")

log = logging.getLogger(__name__)


def find_files(source: str, target: str, multi30k_dir: Path | None = None) -> dict[str, FilePair]:
    """Find the files of Multi30k in two languages and verify their checksums.

    They are in `multi30k_dir`, or else in the folder that the environment variable TFM_MULTI30K_DIR names; a warning
    names test sets that are missing there. Without such a folder, they are downloaded into the user's cache.

    Returns the files of each split. Raises DataError if the folder lacks train or valid or has files with a wrong
    checksum, and DownloadError.
    """
    folder = None
    if named := multi30k_dir or os.environ.get(FOLDER_VARIABLE):
        folder = Path(os.path.expanduser(named))
        if not folder.is_dir():
            by = "--multi30k-dir" if multi30k_dir else FOLDER_VARIABLE
            raise DataError(f"{folder}: no such folder; {by} must name one with Multi30k's *.gz files")
    files, left_out = {}, []
    for split in ("train", "valid", *TEST_SETS):
        names = [f"{split.replace('valid', 'val')}.{language}.gz" for language in (source, target)]
        if not checksums().keys() >= {*names}:
            continue
        if folder and split in TEST_SETS and not all((folder / name).exists() for name in names):
            left_out.append(split)
            continue
        files[split] = FilePair(source=_verified_file(names[0], folder), target=_verified_file(names[1], folder))
    if left_out:
        log.warning("%s lacks %s; left out", folder, ", ".join(left_out))
    return files


@cache
def checksums() -> dict[str, str]:
    """Returns the SHA-256 of each file below ADDRESS by its name. The test sets of 2017 lack Czech."""
    lines = Path(__file__).with_suffix(".sha256").read_text(encoding="utf-8").splitlines()
    return {name: total for total, name in map(str.split, lines)}


def cache_folder() -> Path:
    """Returns the user's folder for downloads, which may not exist yet."""
    return Path(platformdirs.user_cache_dir("tfm"), "multi30k")


def _verified_file(name: str, folder: Path | None) -> Path:
    """Returns the path of a verified file in a folder (None: the cache, into which it is downloaded if necessary)."""
    path, address, expected = (folder or cache_folder()) / name, f"{ADDRESS}/{name}", checksums()[name]
    found = sha256_of_file(path) if path.is_file() else None
    if found == expected:
        return path
    what = f"SHA-256 is {found}, expected {expected}" if found else "no such file"
    if folder:
        raise DataError(f"{path}: {what}; get it from {address}")
    if found:
        log.warning("%s: %s; downloading it again", path, what)
    _download(address, path)
    return path


def _download(address: str, path: Path) -> None:
    """Download a file to `path`, whole or not at all, in at most three attempts. Raises DownloadError."""
    import requests  # takes a tenth of a second
    from requests.adapters import HTTPAdapter, Retry  # type: ignore[attr-defined]  # urllib3's, which requests needs

    log.info("downloading %s", address)
    total, expected = hashlib.sha256(), checksums()[path.name]
    uncompressed = {"Accept-Encoding": "identity"}  # so that the progress bar knows the length
    retries = Retry(2, backoff_factor=BACKOFF_FACTOR, status_forcelist=RETRIED_STATUSES, raise_on_status=False)
    retries.respect_retry_after_header = False  # it may ask for hours
    try:
        with atomic_file(path) as file, requests.Session() as session:
            session.mount(ADDRESS, HTTPAdapter(max_retries=retries))
            with session.get(address, headers=uncompressed, stream=True, timeout=TIMEOUT_S) as response:
                response.raise_for_status()
                with bar(f"Downloading {path.name}", response.raw.length_remaining, "B", unit_scale=True) as progress:
                    for block in response.iter_content(1 << 16):
                        file.write(block)
                        total.update(block)
                        progress.update(len(block))
            if total.hexdigest() != expected:
                raise OSError(f"SHA-256 is {total.hexdigest()}, expected {expected}")
    except OSError as error:  # including those of requests
        cause: BaseException = error
        while inner := cause.__cause__ or cause.__context__:  # requests and urllib3 wrap the system's error
            cause = inner
        what = f"{address}: cannot be downloaded into {path.parent}: {cause}"
        raise DownloadError(f"{what}; try again later, or {OFFLINE_REMEDY}") from None
