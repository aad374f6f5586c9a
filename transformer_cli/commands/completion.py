"""What Tab completes in a shell: the names of runs, configs, splits and settings. Opens no run; imports no torch.

The user may still type a name that is not offered here. Where nothing is offered, the shell completes paths.
"""

from pathlib import Path


def runs() -> list[str]:
    """The names of the runs under runs/, and the folders of exported ones under exports/."""
    exported = sorted(str(path.parent) for path in Path("exports").glob("*/run.json"))
    return sorted(path.parent.name for path in Path("runs").glob("*/run.json")) + exported


def splits() -> list[str]:
    """The names of the splits of every prepared dataset under data/."""
    suffix = ".source.ids.npy"
    return sorted({path.name.removesuffix(suffix) for path in Path("data").glob(f"*/*{suffix}")})


def configs(incomplete: str) -> list[str]:
    """The names of the configs that come with tfm."""
    from transformer_cli.config.load import shipped_configs

    return [name for name in shipped_configs() if name.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    """Every key of the config that begins with `incomplete`, followed by "=": `training.epochs=`."""
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.config.schema import Config

    return [f"{key}=" for key in settings_by_key(Config()) if f"{key}=".startswith(incomplete)]


def decoding_settings(incomplete: str) -> list[str]:
    """Like `settings`, but only the keys that `--set` takes where a trained run is used."""
    return [each for each in settings(incomplete) if each.startswith("decoding.")]
