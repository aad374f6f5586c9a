"""YAML and `--set` in, a typed config out, and back to YAML. Imports no torch.

A key that the schema does not have is an error, which names the nearest key that it has.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from transformer_cli.config.configfile import find_config, read_config_text
from transformer_cli.config.mistakes import first_mistake
from transformer_cli.config.schema import Config, DecodingConfig, is_file, leaves
from transformer_cli.config.yamltext import as_line, as_text, parse_mapping, parse_value
from transformer_cli.errors import ConfigError


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file (None: the built-in defaults), then apply overrides such as `training.learning_rate=3e-4`.

    path: a file, or the name of a config that comes with tfm, such as demo; a file of that name goes before it.

    Relative paths under data.files and model.vectors are resolved against the YAML file's folder (in overrides: against
    the current folder), and become absolute.
    Raises ConfigError, in one line, for a file that cannot be read, an unknown key, a wrong type or a wrong value.
    """
    tree: dict[str, Any] = {}
    origin = "--set"
    if path is not None:
        origin = str(path)
        file = find_config(path)
        tree = _in_file(read_config_text(file), file)
    for override in overrides:
        _apply_override(tree, override)
    _make_paths_absolute(tree, Path())  # the paths from --set
    return _validated(tree, origin, {f"--set {override}": _key(override) for override in overrides})


def parse_config(text: str, path: Path) -> Config:
    """Like `load_config`, for the text that was read from a file."""
    return _validated(_in_file(text, path), str(path), {})


def override_decoding(
    decoding: DecodingConfig, overrides: Sequence[str] = (), *, beam_size: int | None = None
) -> DecodingConfig:
    """Apply overrides such as `decoding.length_penalty=0.6`, and then a beam size of its own, to a run's settings.

    Raises ConfigError, in one line, for a key outside of `decoding`, an unknown key, a wrong type or a wrong value.
    """
    tree: dict[str, Any] = {"decoding": decoding.model_dump()}
    origins = {}
    for override in overrides:
        key = origins[f"--set {override}"] = _key(override)
        if key.partition(".")[0] in Config.model_fields.keys() - {"decoding"}:
            raise ConfigError(
                f"--set {override}: only decoding.* can be set here; {key} is what the run was trained with"
            )
        if key in DecodingConfig.model_fields:
            raise ConfigError(f"--set {override}: unknown key; did you mean decoding.{key}?")
        _apply_override(tree, override)
    if beam_size is not None:
        flag = f"decoding.beam_size={beam_size}"
        _apply_override(tree, flag)
        origins[f"--beam-size {beam_size}"] = _key(flag)
    last = next(reversed(origins), "--set")  # where the values do not fit together
    return _validated(tree, last, origins).decoding


def dump_config(config: Config) -> str:
    """Returns the whole config as YAML, from which `load_config` reads an equal config."""
    return as_text(config.model_dump(mode="json"))


def settings_by_key(config: Config) -> dict[str, Any]:
    """Returns every setting by its dotted key, such as training.seed → 0, in the schema's order."""
    return dict(leaves(config.model_dump(mode="json")))


def differences(old: Config, new: Config, ignore: Sequence[str] = ()) -> list[str]:
    """Returns the settings in which two configs differ, as `training.seed: 0 → 1`. ignore: dotted keys to leave out."""
    before, after = settings_by_key(old), settings_by_key(new)
    keys = dict.fromkeys([*before, *after])
    return [
        f"{key}: {as_line(before.get(key))} → {as_line(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key) and key not in ignore
    ]


def _validated(tree: Mapping[str, Any], origin: str, origins: Mapping[str, str]) -> Config:
    """Returns the config in a tree. origin: what an error begins with, unless it is about a key of `origins`.

    origins: what else an error may begin with, such as "--set training.epochs=x" → the key that it is about.
    """
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        mistake = first_mistake(error)
        for other, key in origins.items():
            if mistake.is_about(key):
                origin = other
        raise ConfigError(f"{origin}: {mistake.sentence}") from None


def _in_file(text: str, path: Path) -> dict[str, Any]:
    tree = parse_mapping(text, path)
    _make_paths_absolute(tree, path.parent)
    return tree


def _make_paths_absolute(tree: Mapping[str, Any], folder: Path) -> None:
    for pair in _below(tree, "data", "files").values():
        for side, value in pair.items() if isinstance(pair, dict) else ():
            if isinstance(value, str):
                pair[side] = _absolute(value, folder)
    vectors = _below(tree, "model", "vectors")
    for side, value in vectors.items():
        if isinstance(value, str) and is_file(value):
            vectors[side] = _absolute(value, folder)


def _below(tree: Mapping[str, Any], section: str, key: str) -> dict[str, Any]:
    """Returns the mapping tree[section][key], or an empty one (validation refuses any other value later)."""
    parent = tree.get(section)
    found = parent.get(key) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}


def _absolute(path: str, folder: Path) -> str:
    try:
        return str((folder / Path(path).expanduser()).resolve())
    except (RuntimeError, ValueError) as error:  # ~nobody/…; a NUL
        raise ConfigError(f"{path!r}: not a path: {error}") from None


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _shortened(override: str) -> str:
    return override if len(override) <= 100 else f"{override[:100]}…"


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: write KEY=VALUE, such as training.learning_rate=3e-4")
    try:
        value = parse_value(text)
    except ValueError as error:
        raise ConfigError(f"--set {_shortened(override)}: {_shortened(text)!r} is not a YAML value: {error}") from None
    *parents, last = key.strip().split(".")
    for parent in parents:
        if tree.get(parent) is None:
            tree[parent] = {}
        tree = tree[parent]
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {override}: {parent} has no keys below it")
    tree[last] = value
