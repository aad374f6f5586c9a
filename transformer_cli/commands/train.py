"""`tfm train`: a dataset → a run under runs/, or an interrupted run resumed."""


def train(
    config: str | None = None,
    overrides: list[str] | None = None,
    begin_from: str | None = None,
    fresh: bool = False,
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
