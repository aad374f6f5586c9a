"""The files of Multi30k: their addresses and SHA-256, and the folder that holds them or that they are fetched into.

Knows nothing of words. The one owner of requests, which is imported only to fetch a file.
"""

import hashlib
import logging
import os
from pathlib import Path

import platformdirs

from transformer_cli.errors import DataError, DownloadError
from transformer_cli.system.files import new_file, sha256
from transformer_cli.system.progress import bar

ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
FOLDER_VARIABLE = "TFM_MULTI30K_DIR"
WITHOUT_A_NETWORK = (
    f"use a folder that holds the files (--source-dir FOLDER or {FOLDER_VARIABLE}), text of your own (data.corpus: "
    "files with data.files, as `tfm config` shows them), or the embedded German–English corpus (--config demo-captions)"
)
TIMEOUT_S = 20.0
PAUSE_S = 1.0  # before the third attempt to reach the server
MAY_PASS = (408, 429, 500, 502, 503, 504)  # answers after which it is asked again
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")
# The files of the repository multi30k/dataset, data/task1/raw, and their SHA-256. The sets of 2017 have no Czech.
SUMS = {
    "test_2016_flickr.cs.gz": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "test_2017_mscoco.de.gz": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en.gz": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "test_2017_mscoco.fr.gz": "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0",
    "test_2018_flickr.cs.gz": "7d0a9db904f94c554a8c58049a9f3a5357c27f46cc3d710d70cb0b4a2585b8c2",
    "test_2018_flickr.de.gz": "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608",
    "test_2018_flickr.en.gz": "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d",
    "test_2018_flickr.fr.gz": "fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501",
    "train.cs.gz": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.cs.gz": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}

log = logging.getLogger(__name__)


def find_files(source: str, target: str, source_dir: Path | None = None) -> dict[str, tuple[Path, Path]]:
    """Find Multi30k in two languages, in a folder or in the user's cache, and compare its files with their sums.

    The folder is `source_dir`, else the value of the environment variable TFM_MULTI30K_DIR; test sets may be missing
    there. If neither is given, files that are missing in the cache are downloaded.

    Returns split → (source file, target file); a warning names test sets that the folder lacks. Raises DataError for a
    folder without the files of train and valid, or with others, and DownloadError.
    """
    folder = _named_folder(source_dir)
    files, left_out = {}, []
    for split in ("train", "valid", *TESTS):
        names = [f"{split.replace('valid', 'val')}.{language}.gz" for language in (source, target)]
        if not all(name in SUMS for name in names):
            continue
        if folder and split in TESTS and not all((folder / name).exists() for name in names):
            left_out.append(split)
            continue
        source_file, target_file = (_from_folder(folder, name) if folder else _from_cache(name) for name in names)
        files[split] = source_file, target_file
    if left_out:
        log.warning("%s lacks %s: left out", folder, ", ".join(left_out))
    return files


def cache_folder() -> Path:
    """Returns the user's folder for what is downloaded, which may not be there yet."""
    return Path(platformdirs.user_cache_dir("tfm"), "multi30k")


def _named_folder(source_dir: Path | None) -> Path | None:
    named = source_dir or os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(os.path.expanduser(named))
    if not folder.is_dir():
        by = "--source-dir" if source_dir else FOLDER_VARIABLE
        raise DataError(f"{folder}: no such folder; {by} must name one that holds Multi30k's *.gz files")
    return folder


def _from_folder(folder: Path, name: str) -> Path:
    path, address = folder / name, f"{ADDRESS}/{name}"
    if not path.is_file():
        raise DataError(f"{folder}: lacks {name}; get it from {address}")
    if (found := sha256(path)) != SUMS[name]:
        raise DataError(f"{path}: SHA-256 is {found}, expected {SUMS[name]}; get it again from {address}")
    return path


def _from_cache(name: str) -> Path:
    path = cache_folder() / name
    if path.is_file():
        if (found := sha256(path)) == SUMS[name]:
            return path
        log.warning("%s: SHA-256 is %s, expected %s; fetching it again", path, found, SUMS[name])
    _download(f"{ADDRESS}/{name}", path)
    return path


def _download(address: str, path: Path) -> None:
    """Fetch one of the files; it appears at `path` whole or not at all. Raises DownloadError.

    A server that cannot be reached, or says that it may answer later, is asked three times.
    """
    import requests  # takes a tenth of a second
    from requests.adapters import HTTPAdapter, Retry  # type: ignore[attr-defined]  # urllib3's, which requests needs

    log.info("fetching %s", address)
    total, expected = hashlib.sha256(), SUMS[path.name]
    as_it_is = {"Accept-Encoding": "identity"}  # not compressed on the way: so the bar knows how much there is
    again = Retry(2, backoff_factor=PAUSE_S, status_forcelist=MAY_PASS, raise_on_status=False)
    again.respect_retry_after_header = False  # which may ask for hours
    try:
        with new_file(path) as file, requests.Session() as session:
            session.mount(ADDRESS, HTTPAdapter(max_retries=again))
            with session.get(address, headers=as_it_is, stream=True, timeout=TIMEOUT_S) as response:
                response.raise_for_status()
                with bar(f"Fetching {path.name}", response.raw.length_remaining, "B", unit_scale=True) as progress:
                    for block in response.iter_content(1 << 16):
                        file.write(block)
                        total.update(block)
                        progress.update(len(block))
            if total.hexdigest() != expected:
                raise OSError(f"SHA-256 is {total.hexdigest()}, expected {expected}")
    except OSError as error:  # those of requests are OSErrors too
        cause: BaseException = error
        while inner := cause.__cause__ or cause.__context__:  # requests and urllib3 wrap the system's error
            cause = inner
        raise DownloadError(
            f"{address}: cannot be fetched into {path.parent}: {cause}; try again later, or {WITHOUT_A_NETWORK}"
        ) from None
