"""The text of a config, from whatever its name stands for: a file, a shipped config, a pipe, "-". Knows no YAML.

A shipped config goes by its name alone, such as demo; a file of that name in the current folder goes before it.
"""

import os
import stat
from pathlib import Path

from transformer_cli.config.schema import NAME
from transformer_cli.errors import ConfigError, FileError
from transformer_cli.system.files import open_to_read
from transformer_cli.system.reading import decoded

MOST_BYTES = 1_000_000  # an endless device, such as /dev/zero, is not a config
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
        with open_to_read(path) as file:
            content = file.read(MOST_BYTES + 1)
            is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        if is_pipe and not content:  # --config <(a command that has failed): not the defaults
            raise ConfigError(f"{path}: a pipe into which nothing was written; check what writes into it")
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{path}: has more than {MOST_BYTES:,} bytes, so it is not a config; name another file")
        return decoded(content, path)
    except FileError as error:
        raise ConfigError(f"{error}; save the file as UTF-8") from None
    except FileNotFoundError:
        names = ", ".join(shipped_configs())
        raise ConfigError(f"{path}: no such config file; those that come with tfm are named {names}") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        reason = getattr(error, "strerror", None) or error
        inside = path / "config.yaml"  # of a run
        remedy = f"name {inside}" if isinstance(error, IsADirectoryError) and inside.is_file() else "name another file"
        raise ConfigError(f"{str(path)!r}: cannot be read: {reason}; {remedy}") from None
