"""YAML and `--set` in, a typed config out, and back to YAML, in which every setting stands with its comment.

    num_heads: 4              # attention heads [default: 8]

Imports no torch. configs/multi30k.yaml is the defaults, written so.

A shipped config goes by its name alone, such as demo; a file of that name in the current folder goes before it. A key
that the schema does not have is an error, which names the nearest key that it has.
"""

import os
import stat
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from transformer_cli.config.error_messages import OptionKey, describe_error
from transformer_cli.config.schema import (
    INTERNAL_KEYS,
    NAME,
    Config,
    DecodingConfig,
    Section,
    TranslationSettings,
    flatten,
)
from transformer_cli.config.yaml_text import compose, dump_yaml, inline_yaml, line_of, parse_yaml
from transformer_cli.errors import ConfigError, FileError
from transformer_cli.system.arguments import as_list
from transformer_cli.system.files import decode_utf8, is_stream, open_input
from transformer_cli.system.terminal import shorten

Record = TypeVar("Record")

SAMPLING_KEYS = ("temperature", "top_k", "top_p", "seed")  # settings of decoding that a search has no use for
FINETUNING_KEYS = (("data", "tokenizer_from"), ("training", "initialize_from"))  # inherited, whatever a file says
MAX_CONFIG_BYTES = 1_000_000  # an endless device, such as /dev/zero, is not a config
SHIPPED = Path(__file__).with_name("shipped")  # in a checkout a link to configs/, else a folder with the same files
DEFAULTS_FILE = "multi30k.yaml"  # whose comments are those of the schema
LINE_WIDTH = 80  # columns: as many as any terminal has
COMMENT_COLUMN = 28  # the column in which comments begin
NBSP = "\xa0"  # a space at which no line ends


def load_config(
    path: str | Path | None = None,
    overrides: str | Iterable[str] | Mapping[str, Any] = (),
    *,
    options: Mapping[str, tuple[Any, str]] | None = None,
    inherited: Mapping[str, Any] | None = None,
) -> Config:
    """Read a YAML file (None: the built-in defaults), then apply overrides such as `training.learning_rate=3e-4`.

    overrides: one or several such texts, or a mapping: {"training.epochs": 3}, or {"training": {"epochs": 3}}. options:
    dotted key → its value and the option that gives it, as errors name it; overrides go before these.
    inherited: a tree of settings for what neither the file nor an option says; a null says that there is none, but for
    FINETUNING_KEYS, of which only options say anything.

    path: a file, or the name of a config that comes with tfm, such as demo; a file of that name goes before it. "-" is
    standard input.

    Relative paths under data.files, model.vectors, training.extra_valid and training.replay are resolved against the
    YAML file's folder (in overrides, and in a pipe: against the current folder), and become absolute.
    Raises ConfigError, in one line, for a file that cannot be read, an unknown key, a wrong type or a wrong value.
    """
    tree: dict[str, Any] = {}
    text, origin = "", "the settings"
    if path is not None:
        file, origin = find_config(path), str(path)
        text = read_config_text(file)
        tree = _parse_mapping(text, file)
    for section, key in FINETUNING_KEYS if inherited else ():  # but not whatever --set says
        if isinstance(tree.get(section), dict):
            tree[section].pop(key, None)
    given = [_set_key(tree, key, value, option) for key, (value, option) in (options or {}).items()]
    if isinstance(overrides, Mapping):
        given += [_set_key(tree, key, value, f"{key}={value!r}") for key, value in flatten(dict(overrides))]
    else:
        given += [_apply_override(tree, override) for override in as_list(overrides)]
    tree = _merge(inherited or {}, tree)
    _make_paths_absolute(tree, Path())  # the paths from --set
    return validated(tree, origin, text=text, given=given)


def shipped_configs() -> dict[str, Path]:
    """Returns the name and the file of every config that comes with tfm, in the order of their names."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"), key=lambda path: path.stem)}


def find_config(name: str | Path) -> Path:
    """Returns the file that a config's name stands for, which need not exist."""
    shipped = SHIPPED / f"{name}.yaml"
    is_shipped = NAME.fullmatch(str(name)) and shipped.is_file()
    return shipped if is_shipped and (not os.path.exists(name) or os.path.isdir(name)) else Path(name)


def read_config_text(path: Path) -> str:
    """Returns the text. Raises ConfigError if there is none, in one line that names the file."""
    try:
        with open_input(path) as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
            is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        if is_pipe and not content:  # --config <(a command that has failed): not the defaults
            raise ConfigError(f"{path}: a pipe into which nothing was written; check what writes into it")
        if len(content) > MAX_CONFIG_BYTES:
            raise ConfigError(
                f"{path}: has more than {MAX_CONFIG_BYTES:,} bytes, so it is not a config; name another file"
            )
        return decode_utf8(content, path)
    except FileError as error:
        raise ConfigError(f"{error}; save the file as UTF-8") from None
    except FileNotFoundError:
        names = ", ".join(shipped_configs())
        raise ConfigError(f"{path}: no such config file; those that come with tfm are named {names}") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        reason = getattr(error, "strerror", None) or error
        inside = path / "config.yaml"  # of a run
        remedy = f"name {inside}" if isinstance(error, IsADirectoryError) and inside.is_file() else "name another file"
        raise ConfigError(f"{str(path)!r}: cannot be read: {reason}; {remedy}") from None


def parse_config(text: str, path: Path) -> Config:
    """Like `load_config`, for the text that was read from a file."""
    return validated(_parse_mapping(text, path), str(path), text=text)


def translation_settings(
    now: DecodingConfig, named: Mapping[str, object], overrides: Sequence[str] = ()
) -> TranslationSettings:
    """Returns how to translate: as now, but for `--set` options, and then for what is named.

    now: what a run's config says, or settings that are to be changed. overrides: such as `decoding.length_penalty=0.6`.
    named: settings by the names of their fields; NumPy's numbers are as good as Python's. Raises ConfigError, in one
    line, for an override outside of `decoding`, an unknown name, a wrong type or a wrong value.
    """
    tree: dict[str, Any] = {"decoding": {name: getattr(now, name) for name in DecodingConfig.model_fields}}
    given = [_apply_override(tree, override) for override in overrides]
    for key, flag in given:
        if key[0] in DecodingConfig.model_fields:
            raise ConfigError(f"{flag}: unknown key; did you mean decoding.{key[0]}?")
        if key[0] in Config.model_fields and key[0] != "decoding":
            raise ConfigError(
                f"{flag}: only decoding.* can be set here; {'.'.join(key)} is what the run was trained with"
            )
    further = dict(now)
    for name, value in named.items():
        if type(value).__module__ == "numpy" and value.shape == ():  # type: ignore[attr-defined]
            value = value.item()  # type: ignore[attr-defined]
        if name in TranslationSettings.model_fields and name not in DecodingConfig.model_fields:
            further[name] = value
        else:
            given.append(_set_key(tree, f"decoding.{name}", value, f"{name}={value!r}"))
    last = given[-1][1] if given else "decoding"  # where the values do not fit together
    decoding = validated(tree, last, given=given).decoding
    for key, flag in () if decoding.sample else given:
        if key[-1] in SAMPLING_KEYS and getattr(decoding, key[-1]) != getattr(now, key[-1]):
            raise ConfigError(
                f"{flag}: nothing is drawn at random without decoding.sample=true; add it, or leave this out"
            )
    try:
        return TranslationSettings.model_validate({**further, **dict(decoding)})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ConfigError(f"{name}={further[name]!r}: {describe_error(first, Config().model_dump())}") from None


def dump_config(config: Config) -> str:
    """Returns the whole config as YAML, from which `load_config` reads an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def commented_settings(config: Config, *, text: str = "", title: str = "") -> str:
    """Returns every setting with its value and its comment, from which `load_config` reads an equal config.

    Of INTERNAL_KEYS it has those that differ from the default. text: the YAML that the config was read from, whose own
    comments go before the schema's. title: what stands above the settings if the text has no comment there.
    """
    lines, root, written = text.split("\n"), compose(text), parse_yaml(text) or {}
    top = header_comment(text).split("\n")

    def of_section(
        section: type[Section], values: dict[str, Any], defaults: dict[str, Any], *above: str
    ) -> Iterator[str]:
        in_file: Any = reduce(lambda tree, key: tree.get(key) or {}, above, written)
        for name, field in section.model_fields.items():
            value, indent = values[name], "  " * len(above)
            number = (line_of(root, (*above, name)) or 1) - 1
            line, is_its = lines[number], lines[number].lstrip().startswith(f"{name}:")
            own = line.partition(" # ")[2].strip() if is_its else ""
            over = [*takewhile(_is_own_comment, reversed(lines[len(top) : number]))] if is_its else []
            if ".".join((*above, name)) in INTERNAL_KEYS and value == defaults[name]:
                continue
            values_of = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            choices = [each for each in values_of if each not in INTERNAL_KEYS]
            comment = f"{' | '.join(choices)}: " * bool(choices) + " ".join((field.description or "").split())
            if not above:
                yield ""
            yield from reversed(over)
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                yield from _with_comment(f"{indent}{name}:", own or comment)
                yield from of_section(field.annotation, value, defaults[name], *above, name)
                continue
            if own and in_file.get(name) == value:  # else it was said of another value
                comment = own
            if value != defaults[name]:
                comment += f" [default:{NBSP}{inline_yaml(defaults[name])}]"
            if isinstance(value, dict):  # data.files, whose keys are the user's
                yield from _with_comment(f"{indent}{name}:", comment)
                for split, text in value.items():
                    several = text if isinstance(text, list) else []
                    yield f"{indent}  {inline_yaml(split)}:" + ("" if several else f" {inline_yaml(text)}")
                    yield from (f"{indent}    - {inline_yaml(each)}" for each in several)
            else:
                yield from _with_comment(f"{indent}{name}: {inline_yaml(value)}", comment)

    settings = of_section(Config, config.model_dump(mode="json"), Config().model_dump(mode="json"))
    return "\n".join([header_comment(text) or f"# {title}", *settings, ""])


def header_comment(text: str) -> str:
    """Returns the comment above the settings; its first line says what the config is for."""
    return "\n".join(takewhile(lambda line: line.startswith("#"), text.split("\n")))


def _is_own_comment(line: str) -> bool:
    """Whether a line is the user's own comment on the setting below it, not the end of one behind a setting."""
    return line.lstrip().startswith("#") and len(line) - len(line.lstrip()) < COMMENT_COLUMN


def _with_comment(setting: str, comment: str) -> Iterator[str]:
    """Yield the lines of a setting: its value, and its comment behind it, or below it where the value is too long."""
    width = LINE_WIDTH - COMMENT_COLUMN - len("# ")
    wrapped = textwrap.wrap(comment, width, break_long_words=False, break_on_hyphens=False)
    comments = [f"# {each}".replace(NBSP, " ") for each in wrapped]
    if len(setting) <= COMMENT_COLUMN - 2 and comments:
        setting = f"{setting:{COMMENT_COLUMN}}{comments.pop(0)}"
    yield setting
    yield from (f"{'':{COMMENT_COLUMN}}{each}" for each in comments)


def with_relative_paths(config: Config, folder: Path) -> Config:
    """Returns a config whose files are named as seen from a folder, in which its YAML is to stand."""
    tree = config.model_dump(mode="json")
    files = tree["data"]["files"] or {}
    files.update({split: _map_paths(text, lambda path: os.path.relpath(path, folder)) for split, text in files.items()})
    return Config.model_validate(tree)


def settings_by_key(config: Config) -> dict[str, Any]:
    """Returns every setting by its dotted key, such as training.seed → 0, in the schema's order."""
    return dict(flatten(config.model_dump(mode="json")))


def differences(old: Config, new: Config, ignore: Sequence[str] = ()) -> list[str]:
    """Returns the settings in which two configs differ, as `training.seed: 0 → 1`. ignore: dotted keys to leave out."""
    before, after = settings_by_key(old), settings_by_key(new)
    keys = dict.fromkeys([*before, *after])
    return [
        f"{key}: {inline_yaml(before.get(key))} → {inline_yaml(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key) and key not in ignore
    ]


def validated(tree: dict[str, Any], origin: str, *, text: str = "", given: Sequence[OptionKey] = ()) -> Config:
    """Returns the config of a tree of settings. Raises ConfigError, which names origin and the first mistake."""
    return Config.model_validate(tree, context={"origin": origin, "text": text, "given": given})


def from_json(owner: type[Record], value: Mapping[str, Any], path: Path) -> Record:
    """Returns the dataclass that the JSON object in `path` describes. Raises FileError for other keys or types."""
    if unknown := [key for key in value if key not in {field.name for field in fields(owner)}]:  # type: ignore[arg-type]
        raise FileError(f"{path}: damaged: unknown key {unknown[0]!r}")
    try:
        return TypeAdapter(owner).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise FileError(f"{path}: damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _parse_mapping(text: str, path: Path) -> dict[str, Any]:
    """Returns the mapping in a file's text, {} if it is empty, with absolute paths. Raises ConfigError."""
    tree = parse_yaml(text, f"{path}: ")
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        what = "a list" if isinstance(tree, list) else "a single value"
        raise ConfigError(f"{path}: a config is keys and values, such as `name: first`, not {what}")
    _make_paths_absolute(tree, Path() if is_stream(path) else path.parent)
    return tree


def _make_paths_absolute(tree: dict[str, Any], folder: Path) -> None:
    """Replace the paths among the settings that were given, whatever validation will say of their forms."""

    def absolute(path: str) -> str:
        try:
            place = folder / Path(path).expanduser()
            return str(place.parent.resolve() / place.name)  # a link may lead to a name without .gz
        except (RuntimeError, ValueError) as error:  # ~nobody/…; a NUL
            raise ConfigError(f"{path!r}: not a path: {error}") from None

    sections = (tree.get(name) for name in ("data", "model", "training"))
    data, model, training = (each if isinstance(each, dict) else {} for each in sections)
    if isinstance(data.get("files"), dict):
        data["files"] = {split: _map_paths(text, absolute) for split, text in data["files"].items()}
    if "vectors" in model:
        model["vectors"] = _map_paths(model["vectors"], lambda path: absolute(path) if path else path)
    for key in ("extra_valid", "replay"):
        if key in training:
            # the name of a split has neither "/" nor "."
            training[key] = _map_paths(training[key], lambda where: absolute(where) if {*"/."} & {*where} else where)


def _map_paths(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a path, the sides of a text, or a list of such as a config has them, with each path changed."""
    if isinstance(value, list):
        return [each if isinstance(each, list) else _map_paths(each, change) for each in value]
    if isinstance(value, dict):
        return {side: change(path) if isinstance(path, str) else path for side, path in value.items()}
    return change(value) if isinstance(value, str) else value


def _apply_override(tree: dict[str, Any], override: str) -> OptionKey:
    """Set a key of the tree, as in `training.epochs=3`. Returns the key, and what an error about it begins with."""
    option = shorten(override, 100)
    dotted, equals, text = override.partition("=")
    if not equals or not all(dotted.strip().split(".")):
        raise ConfigError(f"{option}: write KEY=VALUE, such as training.learning_rate=3e-4")
    return _set_key(tree, dotted.strip(), parse_yaml(text, f"{option}: "), option)


def _set_key(tree: dict[str, Any], dotted: str, value: Any, option: str) -> OptionKey:
    """Set a dotted key of the tree, which an option gives."""
    key = tuple(dotted.split("."))
    for parent in key[:-1]:
        if tree.get(parent) is None:
            tree[parent] = {}
        tree = tree[parent]
        if not isinstance(tree, dict):
            raise ConfigError(f"{option}: {parent} has no keys below it")
    tree[key[-1]] = value
    return key, option


def _merge(below: Mapping[str, Any], tree: Any) -> Any:
    """Returns a tree with what another one has and it has not."""
    if not isinstance(tree, dict):
        return tree
    missing = {
        key: value
        for key, value in below.items()
        if tree.get(key) is None and (key not in tree or isinstance(value, Mapping))
    }
    sections = {key: value for key, value in below.items() if isinstance(value, Mapping) and key not in missing}
    return {**tree, **missing, **{key: _merge(value, tree[key]) for key, value in sections.items()}}
