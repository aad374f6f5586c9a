"""`tfm compare`: several runs, or files of translations → which is better, and whether that is more than chance."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.commands import completion
from transformer_cli.commands.options import DeviceOption, JsonOption, LowercaseOption, dash_as_input

EXAMPLES = 3


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C …]",
            help="Runs (names or folders), or files of translations. The others are compared with the first. "
            "A1,A2 B1,B2 compares recipes: several runs of each.",
            show_default=False,
            autocompletion=completion.lists_of_runs,
        ),
    ],
    split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT",
            help="A split of the first run's dataset. Repeatable.",
            show_default="every test set",
            autocompletion=completion.splits,
        ),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Your own sentences, with --reference. Files do not need it.",
            callback=dash_as_input,
        ),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Their reference translations.", callback=dash_as_input)
    ] = None,
    lowercase: LowercaseOption = False,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="The language of files of translations, for BLEU's tokeniser.",
            show_default="the runs', or en",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="How many of the sentences that changed most are shown.",
            show_default=str(EXAMPLES),
        ),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Tell which system translates better, and whether by chance."""
    recipes = [_runs_of(argument) for argument in systems]
    are_single = all(len(runs) == 1 for runs in recipes)
    if len(recipes) < 2:
        raise typer.BadParameter("name at least two runs or files, such as: tfm compare A B")
    if input_file and not reference:
        raise typer.BadParameter("--input needs --reference")
    if reference and split:
        raise typer.BadParameter("--split and --reference cannot be used together")
    if examples and not are_single:
        raise typer.BadParameter("--examples shows sentences of two runs; it cannot be used with several runs of each")
    from transformer_cli.evaluation.compare import Terms, compare, compare_recipes
    from transformer_cli.output.comparisons import comparisons_as_json, comparisons_as_table, recipes_as_table

    terms = Terms(split or (), input_file, reference, lowercase, language, device)
    if are_single:
        found = compare(systems, terms, examples=EXAMPLES if examples is None else examples)
        print(comparisons_as_json(found) if as_json else comparisons_as_table(found))
    else:
        of_recipes = compare_recipes(recipes, terms)
        print(comparisons_as_json(of_recipes) if as_json else recipes_as_table(of_recipes))


def _runs_of(argument: str) -> list[str]:
    """Split an argument at its commas, unless it is itself the name of a run, a folder or a file."""
    if Path(argument).exists() or Path("runs", argument).exists():
        return [argument]
    return [name for name in argument.split(",") if name] or [argument]
