"""The text of a config, from whatever its name stands for: a file, a shipped config, a pipe, a device. Knows no YAML.

A shipped config goes by its name alone, such as demo; a file of that name in the current folder goes before it.
A pipe is read, since a shell makes one of `--config <(…)`, but nobody waits for ever for what it has to say; and no
config is so long that an endless device could be one.
"""

import os
import select
import stat
import time
from pathlib import Path

from transformer_cli.config.schema import NAME
from transformer_cli.errors import ConfigError, FileError
from transformer_cli.system.reading import decoded

MOST_BYTES = 1_000_000
PATIENCE_S = 10.0  # for a pipe or a terminal that says nothing
SHIPPED = Path(__file__).with_name("shipped")  # in a checkout a link to configs/, else a folder with the same files


def shipped_configs() -> dict[str, Path]:
    """Returns the name and the file of every config that comes with tfm, in the order of their names."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"), key=lambda path: path.stem)}


def find_config(name: str | Path) -> Path:
    """Returns the file that a config's name stands for, which need not exist."""
    shipped = SHIPPED / f"{name}.yaml"
    is_shipped = NAME.fullmatch(str(name)) and shipped.is_file()
    return shipped if is_shipped and (not os.path.exists(name) or os.path.isdir(name)) else Path(name)


def read_config_text(path: Path) -> str:
    """Returns the text. Raises ConfigError if there is none, in one line that names the file."""
    try:
        content = _read(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such config file{_advice(path)}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a folder, not a config file; name a file in it") from None
    except TimeoutError:
        raise ConfigError(
            f"{path}: a pipe into which nothing is written; name a file, or check what writes into it"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}; correct the path or permissions"
        ) from None
    except ValueError:  # a NUL in the name
        raise ConfigError(f"{str(path)!r}: cannot name a file; correct the path") from None
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: has more than {MOST_BYTES:,} bytes, so it is not a config; name another file")
    try:
        return decoded(content, path)
    except FileError as error:
        raise ConfigError(f"{error}; save the file as UTF-8") from None


def _advice(path: Path) -> str:
    """What to say of shipped configs if there is no such file, whose name may have been meant to be one of theirs."""
    shipped = shipped_configs()
    if path.suffix in (".yaml", ".yml"):
        is_shipped = path.stem in shipped
        return f"; the one that comes with tfm is named {path.stem}, without a folder and .yaml" if is_shipped else ""
    return f", and none of that name comes with tfm ({', '.join(shipped)})" if NAME.fullmatch(str(path)) else ""


def _read(path: Path) -> bytes:
    """Returns the content, or a little more than MOST_BYTES of it. Raises OSError; for a silent pipe TimeoutError."""
    if os.name != "posix" or stat.S_ISREG(path.stat().st_mode):
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # opening a pipe would wait for its writer
    try:
        return _read_slowly(descriptor)
    finally:
        os.close(descriptor)


def _read_slowly(descriptor: int) -> bytes:
    content = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    until = time.monotonic() + PATIENCE_S
    while len(content) <= MOST_BYTES:
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError
        try:
            block = os.read(descriptor, 1 << 16)
        except BlockingIOError:  # /dev/stdin that another process reads as well
            continue
        if not block and not content and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise TimeoutError  # --config <(a command that has failed): not the defaults
        if not block:
            return content
        content += block
        until = time.monotonic() + PATIENCE_S
    return content
