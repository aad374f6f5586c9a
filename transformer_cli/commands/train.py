"""`tfm train`: a dataset → a run under runs/, or an interrupted run resumed."""

from typing import Annotated

import typer

from transformer_cli.commands.options import ConfigOption, SetOption


def train(
    config: ConfigOption = None,
    overrides: SetOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Move an existing run of this name aside and begin a new one.")
    ] = False,
) -> None:
    """Train a run under runs/. An interrupted run continues from its last save."""
    from transformer_cli.config.load import load_config

    settings = load_config(config, overrides or ())
    from transformer_cli.training.trainer import train  # imports torch, so only after the config has been checked

    train(settings, fresh=fresh)
