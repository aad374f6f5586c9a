"""`tfm curves`: the histories of runs → one picture of their learning curves."""

from dataclasses import asdict
from pathlib import Path

from transformer_cli.commands.options import find_runs, refuse_unwritable, writing
from transformer_cli.errors import DataError
from transformer_cli.inspection.picture_files import picture_format


def curves(
    named: list[str] | None = None,
    run: list[str] | None = None,
    output: Path = Path("curves.png"),
) -> None:
    """Draw learning curves. Several runs share one picture, which names the settings in which they differ."""
    picture_format(output)
    refuse_unwritable(output)
    folders = find_runs(named, run)
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.inspection import plots
    from transformer_cli.runs.listing import in_short
    from transformer_cli.runs.run import Run
    from transformer_cli.runs.state import validations_so_far

    opened = [Run.open(folder) for folder in folders]
    differing = in_short([settings_by_key(each.config) for each in opened])
    histories = {}
    for each, settings in zip(opened, differing, strict=True):
        history = [asdict(validation) for validation in validations_so_far(each)]
        if not history:
            raise DataError(f"{each.folder}: no validation yet, so there is nothing to draw; let `tfm train` reach one")
        told = ", ".join(f"{key} {value}" for key, value in settings.items())
        histories[f"{each.folder} ({told})" if told else str(each.folder)] = history
    with writing(output):
        plots.save(plots.draw_curves(histories), output)
    print(output)
