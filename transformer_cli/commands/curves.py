"""`tfm curves`: the histories of runs → one picture of their learning curves."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.commands import completion
from transformer_cli.commands.options import writing
from transformer_cli.errors import DataError
from transformer_cli.inspection.picture_files import picture_format


def curves(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names under runs/, or folders.", show_default="the newest", autocompletion=completion.runs
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The .svg, .pdf or .png to write.")
    ] = Path("curves.png"),
) -> None:
    """Draw learning curves. The curves of several runs share one picture."""
    picture_format(output)  # before there is work to lose
    from transformer_cli.runs.run import Run, find_run

    folders = [find_run(run) for run in runs or (None,)]
    from transformer_cli.inspection.plots import draw_curves
    from transformer_cli.runs.state import validations_so_far

    histories = {str(folder): [asdict(each) for each in validations_so_far(Run.open(folder))] for folder in folders}
    for name, history in histories.items():
        if not history:
            raise DataError(f"{name}: no validation yet, so there is nothing to draw; let `tfm train` reach one")
    with writing(output):
        draw_curves(histories, output)
    print(output)
