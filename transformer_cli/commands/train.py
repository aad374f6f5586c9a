"""`tfm train`: a dataset → a run under runs/, or an interrupted run resumed."""

from transformer_cli.system.terminal import table


def train(
    config: str | None = None,
    overrides: list[str] | None = None,
    begin_from: str | None = None,
    watch: list[str] | None = None,
    along: list[str] | None = None,
    fresh: bool = False,
) -> None:
    """Train a run under runs/. An interrupted run continues from its last save."""
    from transformer_cli.config.load import load_config

    below = None
    if begin_from is not None:
        from transformer_cli.runs.prepare import inherited

        below = inherited(begin_from)
    given = {"watch": watch, "along": along}
    options = {f"training.{key}": (names, f"--{key} {names[0]}") for key, names in given.items() if names}
    settings = load_config(config, overrides or (), options=options, inherited=below)
    from transformer_cli.compute.world import World  # imports torch, so only after the config has been checked
    from transformer_cli.training.beside import as_table
    from transformer_cli.training.trainer import train

    run = train(settings, fresh=fresh)
    if run.config.training.watch and World.from_environment().is_first:
        print(table(as_table(run)))
