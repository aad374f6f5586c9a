"""`tfm runs`: the folder runs/ → what is in it."""

from pathlib import Path

from transformer_cli.commands.options import JsonOption

RUNS = Path("runs")


def runs(as_json: JsonOption = False) -> None:
    """List the runs under runs/, and how good they are. It also shows what they learned and how far they are."""
    from transformer_cli.output.runs import runs_as_json, runs_as_table
    from transformer_cli.runs.listing import list_runs

    found = list_runs(RUNS)
    if as_json:
        print(runs_as_json(RUNS, found))
    elif found:
        print(runs_as_table(found))
