"""`tfm train`: a dataset → a run under runs/, or an interrupted run resumed."""

from typing import Annotated

from transformer_cli.commands import completion
from transformer_cli.commands.options import ConfigOption, SetOption, option


def train(
    config: ConfigOption = None,
    overrides: SetOption = None,
    begin_from: Annotated[
        str | None,
        option(
            "Begin with the weights of this run, and take the settings from it that must be equal.",
            "--from",
            metavar="RUN",
            autocompletion=completion.runs,
        ),
    ] = None,
    fresh: Annotated[bool, option("Move an existing run of this name aside and begin a new one.", "--fresh")] = False,
) -> None:
    """Train a run under runs/. An interrupted run continues from its last save."""
    from transformer_cli.config.load import load_config

    below = None
    if begin_from is not None:
        from transformer_cli.runs.prepare import inherited

        below = inherited(begin_from)
    settings = load_config(config, overrides or (), inherited=below)
    from transformer_cli.training.trainer import train  # imports torch, so only after the config has been checked

    train(settings, fresh=fresh)
