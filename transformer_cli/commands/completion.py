"""What Tab completes in a shell: the names of runs, splits and settings. Opens no run; imports no torch.

The user may still type a name that is not offered here. Where nothing is offered, the shell completes paths.
"""

from pathlib import Path


def devices() -> list[str]:
    """The values that `--device` accepts, apart from cuda:N."""
    return ["auto", "cpu", "cuda", "mps"]


def runs() -> list[str]:
    """The names of the runs under runs/, and the folders of exported ones under exports/."""
    exported = sorted(str(path.parent) for path in Path("exports").glob("*/run.json"))
    return sorted(path.parent.name for path in Path("runs").glob("*/run.json")) + exported


def splits() -> list[str]:
    """The names of the splits of every prepared dataset under data/."""
    suffix = ".source.ids.npy"
    return sorted({path.name.removesuffix(suffix) for path in Path("data").glob(f"*/*{suffix}")})


def configs(incomplete: str) -> list[str]:
    """The names of the configs that come with tfm, with the YAML files here; none where a path has begun."""
    from transformer_cli.config.load import shipped_configs

    names = [name for name in shipped_configs() if name.startswith(incomplete)]
    files = [str(path) for ending in ("yaml", "yml") for path in Path().glob(f"*.{ending}")]
    return [*names, *sorted(name for name in files if name.startswith(incomplete))] if names else []


def settings(incomplete: str) -> list[str]:
    """Every key of the config that begins with `incomplete`, followed by "=": `training.epochs=`.

    If only one key is left, it is offered with its default too, as `training.epochs=10`: bash types a space after a
    single candidate, but not after the common beginning of two.
    """
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.config.schema import Config
    from transformer_cli.config.yamltext import as_line

    defaults = settings_by_key(Config())
    keys = [key for key in defaults if f"{key}=".startswith(incomplete)]
    offered = [f"{key}=" for key in keys]
    if len(keys) == 1:
        default = as_line(defaults[keys[0]]).replace(", ", ",")  # a space would end the word
        offered.append(f"{keys[0]}={default}")
    return offered


def decoding_settings(incomplete: str) -> list[str]:
    """Like `settings`, but only the keys that `--set` takes where a trained run is used."""
    return [each for each in settings(incomplete) if each.startswith("decoding.")]
