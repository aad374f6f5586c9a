"""The formats of pictures, by a file's extension. Does not draw."""

from pathlib import Path

from transformer_cli.errors import DataError
from transformer_cli.system.files import is_stream

PICTURE_FORMATS = ("svg", "pdf", "png")


def picture_format(path: Path) -> str:
    """Returns "svg", "pdf" or "png", by the extension; "png" for a stream, a pipe or a device.

    Raises DataError for any other name.
    """
    extension = path.suffix[1:].lower()
    if extension in PICTURE_FORMATS:
        return extension
    if is_stream(path) and not path.is_dir():
        return "png"
    raise DataError(f"{path}: unknown picture format; use a name that ends in .svg, .pdf or .png")
