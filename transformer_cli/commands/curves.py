"""`tfm curves`: the histories of runs → one picture of their learning curves."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from transformer_cli.commands.options import RunsArgument, a_file, find_runs, of_runs, refuse_unwritable, writing
from transformer_cli.errors import DataError
from transformer_cli.inspection.picture_files import picture_format


def curves(
    named: RunsArgument = None,
    run: Annotated[list[str] | None, of_runs("A run's name under runs/, or its folder. Repeatable.")] = None,
    output: Annotated[Path, a_file("The .svg, .pdf or .png to write.", "--output", "-o")] = Path("curves.png"),
) -> None:
    """Draw learning curves. The curves of several runs share one picture."""
    picture_format(output)
    refuse_unwritable(output)
    folders = find_runs(named, run)
    from transformer_cli.inspection import plots
    from transformer_cli.runs.run import Run
    from transformer_cli.runs.state import validations_so_far

    histories = {str(folder): [asdict(each) for each in validations_so_far(Run.open(folder))] for folder in folders}
    for name, history in histories.items():
        if not history:
            raise DataError(f"{name}: no validation yet, so there is nothing to draw; let `tfm train` reach one")
    with writing(output):
        plots.save(plots.draw_curves(histories), output)
    print(output)
