"""`tfm verify`: a dataset or a run → whether all of its files are as they were written."""

from typing import Annotated

import typer

from transformer_cli.commands import completion
from transformer_cli.errors import DataError, TfmError
from transformer_cli.system.terminal import counted


def verify(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA|RUN]...",
            help="Folders of datasets or exported models; names of runs under runs/, or their folders.",
            show_default="the newest run",
            autocompletion=completion.runs,
        ),
    ] = None,
) -> None:
    """Tell whether the files of a dataset or a run are undamaged. It compares them with the sums that were kept."""
    from transformer_cli.runs.verification import verify

    problems: list[str] = []
    damaged: list[str] = []
    for target in targets or (None,):
        try:
            found = verify(target)
        except TfmError as error:  # the others are read all the same
            problems.append(str(error))
            continue
        for line in found.damaged:
            print(line)
        if found.damaged:
            damaged.append(f"{found.folder} ({len(found.damaged)})")
        else:
            size = f"{counted(found.n_files, 'file')}, {found.n_bytes / 1e6:,.1f} MB"
            print(f"{found.folder}: {size}: as they were written")
    if damaged:
        problems.append(f"damaged: {', '.join(damaged)}; restore what standard output names, or make it again")
    if problems:
        raise DataError("; ".join(problems))
