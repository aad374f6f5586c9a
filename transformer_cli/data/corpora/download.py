"""Fetches one file of a known SHA-256 over HTTP. Knows nothing of corpora.

Imports requests only when something is fetched: the import takes a tenth of a second.
"""

import hashlib
import logging
import socket
import time
from pathlib import Path

from transformer_cli.errors import DownloadError
from transformer_cli.system.files import new_file
from transformer_cli.system.progress import bar

TIMEOUT_S = 20.0
PAUSES_S = (0.5, 1.5)  # between attempts, of which there are three
BLOCK = 1 << 16

log = logging.getLogger(__name__)


def download(address: str, path: Path, expected: str, *, otherwise: str) -> None:
    """Fetch the file at `address`, whose SHA-256 is `expected`; it appears at `path` whole or not at all.

    Makes up to three attempts, if another one may help: a 404, an unknown host or a wrong sum is an error at once.
    Raises DownloadError. otherwise: what the user can do instead; the error's message ends with it.
    """
    for pause in (*PAUSES_S, None):
        try:
            _fetch(address, path, expected)
            return
        except OSError as error:  # the errors of requests are OSErrors too
            reason, may_pass = _diagnose(error)
        if pause is None or not may_pass:
            break
        log.warning("%s: %s; trying again", address, reason)
        time.sleep(pause)
    raise DownloadError(f"{address}: cannot be fetched into {path.parent}: {reason}; try again later, or {otherwise}")


def _fetch(address: str, path: Path, expected: str) -> None:
    """One attempt. Raises OSError."""
    import requests

    log.info("fetching %s", address)
    total = hashlib.sha256()
    as_it_is = {"Accept-Encoding": "identity"}  # not compressed on the way: so the bar knows how much there is
    with new_file(path) as file, requests.get(address, headers=as_it_is, stream=True, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        with bar(f"Fetching {path.name}", response.raw.length_remaining, "B", unit_scale=True) as progress:
            for block in response.iter_content(BLOCK):
                file.write(block)
                total.update(block)
                progress.update(len(block))
        if total.hexdigest() != expected:
            raise OSError(f"SHA-256 is {total.hexdigest()}, expected {expected}")


def _diagnose(error: BaseException) -> tuple[str, bool]:
    """Returns what went wrong, in a few words, and whether another attempt may succeed."""
    import requests

    if isinstance(error, requests.HTTPError):
        response = error.response
        assert response is not None  # requests raises it with a response
        may_pass = response.status_code in (408, 429) or response.status_code >= 500
        return f"HTTP {response.status_code} {response.reason}", may_pass
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the answer broke off", True
    while inner := error.__cause__ or error.__context__:  # requests and urllib3 wrap the system's error
        error = inner
    if isinstance(error, TimeoutError):
        return f"no answer for {TIMEOUT_S:g} s", True
    if isinstance(error, socket.gaierror):
        return f"the host's name is not known here ({error.strerror})", False
    return str(error), isinstance(error, ConnectionError)
