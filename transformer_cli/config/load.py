"""Reads YAML and `--set` into a typed config, and writes it as YAML.

A config that comes with tfm is named without its suffix, such as demo; a file of that name in the current folder takes
precedence. An unknown key is an error, which suggests the most similar key. Imports no torch.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from transformer_cli.config.error_messages import OptionKey, describe_error
from transformer_cli.config.schema import NAME, Config, DecodingConfig, TranslationSettings, flatten
from transformer_cli.config.yaml_text import dump_yaml, inline_yaml, parse_yaml
from transformer_cli.errors import ArgumentError, ConfigError, FileError
from transformer_cli.system.arguments import as_list
from transformer_cli.system.files import decode_utf8, is_stream, open_input, remedy_for
from transformer_cli.system.terminal import shorten

log = logging.getLogger(__name__)

Record = TypeVar("Record")

_type_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # making one takes 10 ms
SAMPLING_KEYS = ("temperature", "top_k", "top_p", "seed")  # keys of decoding that only sampling uses
FINETUNING_KEYS = (("data", "tokenizer_from"), ("training", "initialize_from"))  # with --from, ignored in a file
MAX_CONFIG_BYTES = 1_000_000  # more is not a config, but a device such as /dev/zero
SHIPPED = Path(__file__).with_name("shipped")  # a link to configs/ in a checkout, else a folder with the same files
DEFAULTS_FILE = "multi30k.yaml"  # its comments are the schema's


def load_config(
    path: str | Path | None = None,
    overrides: str | Iterable[str] | Mapping[str, Any] = (),
    *,
    options: Mapping[str, tuple[Any, str]] | None = None,
    inherited: Mapping[str, Any] | None = None,
    **sections: Any,
) -> Config:
    """Read a YAML file (None: the built-in defaults), then apply overrides such as `training.learning_rate=3e-4`.

    path: a file, "-" for standard input, or the name of a config that comes with tfm, such as demo (a file of that name
    takes precedence). overrides: one or several such strings, or a mapping: {"training.epochs": 3} or {"training":
    {"epochs": 3}}. sections: the same as arguments, such as training={"epochs": 3}. options: dotted key → (value, the
    option that sets it, for errors); overrides take precedence. inherited: a run's settings, used where neither the
    file nor an option has a value (null is a value). With them, the file's FINETUNING_KEYS are ignored.

    Relative paths under data.files, model.vectors, training.extra_valid and training.replay are resolved against the
    YAML file's folder (in overrides, and in a pipe: against the current folder), and become absolute.
    Raises ConfigError for a file that cannot be read, an unknown key, a wrong type or a wrong value.
    """
    if isinstance(path, Mapping):
        raise ArgumentError("path: a dict, where a name or a path is wanted; a dict goes into overrides={…}")
    tree: dict[str, Any] = {}
    text, origin = "", "the settings"
    if path is not None:
        file, origin = find_config(path), str(path)
        text = read_config_text(file)
        tree = _parse_mapping(text, file)
    for section, key in FINETUNING_KEYS if inherited else ():  # --set still counts
        if isinstance(tree.get(section), dict):
            tree[section].pop(key, None)
    given = [_set_key(tree, key, value, option) for key, (value, option) in (options or {}).items()]
    if isinstance(overrides, Mapping):
        given += [_set_key(tree, key, value, f"{key}={value!r}") for key, value in flatten(dict(overrides))]
    else:
        given += _apply_overrides(tree, as_list(overrides))
    given += [_set_key(tree, key, value, f"{key}={value!r}") for key, value in flatten(sections)]
    tree = _merge(inherited or {}, tree)
    _make_paths_absolute(tree, Path())  # the paths from --set
    return validated(tree, origin, text=text, given=given)


def shipped_configs() -> dict[str, Path]:
    """Returns name → file of the configs that come with tfm, sorted by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"), key=lambda path: path.stem)}


def find_config(name: str | Path) -> Path:
    """Returns the path of a config, given its name or path. The file need not exist."""
    shipped = SHIPPED / f"{name}.yaml"
    is_shipped = NAME.fullmatch(str(name)) and shipped.is_file()
    return shipped if is_shipped and (not os.path.exists(name) or os.path.isdir(name)) else Path(name)


def read_config_text(path: Path) -> str:
    """Returns the text of a config file. Raises ConfigError if it cannot be read or is empty input from a pipe."""
    try:
        with open_input(path) as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
            is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        if is_pipe and not content:  # as in --config <(a command that failed)
            raise ConfigError(f"{path}: the pipe is empty; check the command that writes into it")
        if len(content) > MAX_CONFIG_BYTES:
            raise ConfigError(f"{path}: not a config: it has more than {MAX_CONFIG_BYTES:,} bytes; name another file")
        return decode_utf8(content, path)
    except FileError as error:
        raise ConfigError(f"{error}; save the file as UTF-8") from None
    except FileNotFoundError:
        names = ", ".join(shipped_configs())
        raise ConfigError(f"{path}: no such config file; tfm comes with {names}") from None
    except IsADirectoryError as error:
        inside = path / "config.yaml"  # of a run
        remedy = f"name {inside}" if inside.is_file() else "name another file"
        raise ConfigError(f"{str(path)!r}: cannot be read: {error.strerror}; {remedy}") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: cannot be read: {error.strerror}; {remedy_for(error, path)}") from None
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{str(path)!r}: cannot be read: {error}; name another file") from None


def parse_config(text: str, path: Path) -> Config:
    """Like `load_config`, for text already read from a file."""
    return validated(_parse_mapping(text, path), str(path), text=text)


def translation_settings(
    base: DecodingConfig, named: Mapping[str, object], overrides: Sequence[str] = ()
) -> TranslationSettings:
    """Returns `base` settings, changed by `--set` options and then by `named` settings.

    base: a run's decoding settings, or earlier TranslationSettings. overrides: such as `decoding.length_penalty=0.6`.
    named: field name → value. Raises ConfigError for an override outside of `decoding`, an unknown name, a wrong type
    or a wrong value.
    """
    tree: dict[str, Any] = {"decoding": {name: getattr(base, name) for name in DecodingConfig.model_fields}}
    given = _apply_overrides(tree, overrides)
    for key, flag in given:
        if key[0] in DecodingConfig.model_fields:
            raise ConfigError(f"{flag}: unknown key; did you mean decoding.{key[0]}?")
        if key[0] in Config.model_fields and key[0] != "decoding":
            raise ConfigError(f"{flag}: only decoding.* can be set here; {'.'.join(key)} is fixed in a trained run")
    further = dict(base)
    for name, value in named.items():
        if name in TranslationSettings.model_fields and name not in DecodingConfig.model_fields:
            further[name] = _as_yaml(value)
        else:
            given.append(_set_key(tree, f"decoding.{name}", value, f"{name}={value!r}"))
    last = given[-1][1] if given else "decoding"  # the origin of errors about several values
    decoding = validated(tree, last, given=given).decoding
    for key, flag in () if decoding.sample else given:
        if key[-1] in SAMPLING_KEYS and getattr(decoding, key[-1]) != getattr(base, key[-1]):
            raise ConfigError(f"{flag}: only used in sampling; add decoding.sample=true, or leave this out")
    try:
        return TranslationSettings.model_validate({**further, **dict(decoding)})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ConfigError(f"{name}={further[name]!r}: {describe_error(first, Config().model_dump())}") from None


def dump_config(config: Config) -> str:
    """Returns the config as YAML, from which `load_config` reads an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def settings_by_key(config: Config) -> dict[str, Any]:
    """Returns dotted key → value of every setting, such as training.seed → 0, in the schema's order."""
    return dict(flatten(config.model_dump(mode="json")))


def differences(old: Config, new: Config, ignore: Sequence[str] = ()) -> list[str]:
    """Returns the differing settings as strings such as `training.seed: 0 → 1`. ignore: dotted keys to leave out."""
    before, after = settings_by_key(old), settings_by_key(new)
    keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key) and key not in ignore]
    return [f"{key}: {inline_yaml(before.get(key))} → {inline_yaml(after.get(key))}" for key in keys]


def validated(tree: dict[str, Any], origin: str, *, text: str = "", given: Sequence[OptionKey] = ()) -> Config:
    """Returns the config of a tree of settings. Raises ConfigError, which names `origin` and the first mistake."""
    return Config.model_validate(tree, context={"origin": origin, "text": text, "given": given})


def from_json(owner: type[Record], value: Mapping[str, Any], path: Path) -> Record:
    """Returns a dataclass from the JSON object in `path`. Raises FileError for other keys or types."""
    if unknown := [key for key in value if key not in {field.name for field in fields(owner)}]:  # type: ignore[arg-type]
        raise FileError(f"{path}: damaged: unknown key {unknown[0]!r}")
    try:
        return _type_adapter(owner).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise FileError(f"{path}: damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _parse_mapping(text: str, path: Path) -> dict[str, Any]:
    """Returns the mapping of a file's YAML, {} if it is empty, with absolute paths. Raises ConfigError."""
    tree = parse_yaml(text, f"{path}: ")
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        what = "a list" if isinstance(tree, list) else "a single value"
        raise ConfigError(f"{path}: a config is a mapping such as `name: first`, not {what}")
    _make_paths_absolute(tree, Path() if is_stream(path) else path.parent)
    return tree


def _make_paths_absolute(tree: dict[str, Any], folder: Path) -> None:
    """Makes the paths in a tree of settings absolute; values of wrong types are left to the validation."""

    def absolute(path: str) -> str:
        try:
            place = folder / Path(path).expanduser()
            return str(place.parent.resolve() / place.name)  # keeps a link, whose target's name may lack .gz
        except (RuntimeError, ValueError) as error:  # ~nobody/…; a NUL
            raise ConfigError(f"{path!r}: not a path: {error}") from None

    sections = (tree.get(name) for name in ("data", "model", "training"))
    data, model, training = (each if isinstance(each, dict) else {} for each in sections)
    if isinstance(data.get("files"), dict):
        data["files"] = {split: map_paths(text, absolute) for split, text in data["files"].items()}
    if "vectors" in model:
        model["vectors"] = map_paths(model["vectors"], lambda path: absolute(path) if path else path)
    for key in ("extra_valid", "replay"):
        if key in training:  # with "/" or "." it is a path, else the name of a split
            training[key] = map_paths(training[key], lambda where: absolute(where) if {*"/."} & {*where} else where)


def map_paths(value: Any, change: Callable[[str], str]) -> Any:
    """Applies `change` to a path, to the paths of a mapping, or to those in a list of either."""
    if isinstance(value, list):
        return [each if isinstance(each, list) else map_paths(each, change) for each in value]
    if isinstance(value, dict):
        return {side: change(path) if isinstance(path, str) else path for side, path in value.items()}
    return change(value) if isinstance(value, str) else value


def _apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> list[OptionKey]:
    """Applies all overrides. Returns their keys and options. Warns of a key that is set twice."""
    given = []
    for override in overrides:
        if not isinstance(override, str):
            wanted = "a str such as 'training.epochs=3' is wanted; pass settings by name, or as a mapping"
            raise ArgumentError(f"overrides: {override!r}, where {wanted}")
        option = shorten(override, 100)
        dotted, equals, text = override.partition("=")
        if not equals or not all(dotted.strip().split(".")):
            raise ConfigError(f"{option}: write KEY=VALUE, such as training.learning_rate=3e-4")
        given.append(_set_key(tree, dotted.strip(), parse_yaml(text, f"{option}: "), option))
    last = dict(given)
    for key, option in given:
        if option is not last[key]:
            log.warning("%s: ignored, since %s follows", option, last[key])
    return given


def _set_key(tree: dict[str, Any], dotted: str, value: Any, option: str) -> OptionKey:
    """Sets a dotted key of the tree. Returns the key and the option, for errors."""
    key = tuple(dotted.split("."))
    for parent in key[:-1]:
        if tree.get(parent) is None:
            tree[parent] = {}
        tree = tree[parent]
        if not isinstance(tree, dict):
            raise ConfigError(f"{option}: {parent} has no keys below it")
    tree[key[-1]] = _as_yaml(value)
    return key, option


def _as_yaml(value: Any) -> Any:
    """Returns a value from Python as YAML has it: paths are text, tuples are lists, NumPy's scalars are numbers."""
    if isinstance(value, list | tuple):
        return [*map(_as_yaml, value)]
    if isinstance(value, dict):
        return {key: _as_yaml(each) for key, each in value.items()}
    if type(value).__module__ == "numpy" and value.shape == ():
        return value.item()
    return str(value) if isinstance(value, Path) else value


def _merge(below: Any, tree: Any) -> Any:
    """Returns `tree` with the missing settings filled in from `below`; a section that is null is missing."""
    if not isinstance(below, Mapping) or not isinstance(tree, dict | None):
        return tree
    tree = tree or {}
    return {**tree, **{key: _merge(value, tree[key]) if key in tree else value for key, value in below.items()}}
