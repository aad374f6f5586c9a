"""YAML text: what is read as what, what is refused, and that what is written is read back."""

import math
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.yamltext import as_line, as_text, parse_mapping, parse_value
from transformer_cli.errors import ConfigError


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "some.yaml"
    path.write_text(text, encoding="utf-8")
    return parse_mapping(path.read_text(encoding="utf-8"), path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),  # a float in YAML 1.2, and a text for PyYAML
        ("-2.E+3", -2000.0),
        (".5e1", 5.0),
        ("0.5", 0.5),
        (".inf", math.inf),
        ("12", 12),
        ("1e", "1e"),
        ("e5", "e5"),
        ("12345e67x", "12345e67x"),
        ("yes", True),  # as in YAML 1.1: the schema then says where a bool has no place
        ("null", None),
        ("0", 0),
        ("00", 0),
        ("08", "08"),
        ("1:60", "1:60"),
        ("'010'", "010"),
        ("0x1f", 31),
        ("", None),
        ("Größe", "Größe"),
        ("'1e-4'", "1e-4"),
        ("[0.9, 9e-1]", [0.9, 0.9]),
        ("{source: a, target: b}", {"source": "a", "target": "b"}),
    ],
)
def test_a_value_is_read_as_yaml_1_2_reads_numbers(text: str, value: object) -> None:
    found = parse_value(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("[", "{a: 1, a: 2}", "{[a]: 1}", "2020-13-45", "0x_", "!!python/name:os.system"),
        *('!!int ""', "!!float x", "!!bool x", "!!timestamp x", "!own x", "[" * 3000, "{a: " * 3000),
        *("010", "-010", "+07", "0_17", "1:30", "-1:30", "1:30:15", "1:30.5", "[1, 010]", "{010: 1}"),
    ],
)
def test_what_is_no_value_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the words are PyYAML's)
        parse_value(text)


def test_a_file_is_a_mapping_and_an_empty_one_is_an_empty_mapping(tmp_path: Path) -> None:
    assert read(tmp_path, "name: a\ndata: {source: de}\n") == {"name": "a", "data": {"source": "de"}}
    assert read(tmp_path, "# nothing but a comment\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "line 2: 'c' is written twice; keep one"),
        ("a: 1\n? [b]\n: 2\n", "line 2: a key is a word, not a list or a mapping"),
        ("a: 1\nb: [\n", " line 3: not YAML: "),
        ("a: 2020-13-45\n", "not YAML: month must be in 1..12"),
        ("a: !!python/name:os.system\n", "line 1: tag:yaml.org,2002:python/name:os.system: a config has no tags; tak"),
        ('a: 1\nb: !!int ""\n', "line 2: tag:yaml.org,2002:int: a config has no tags; take it out"),
        ("a:\n  b: 010\n", "line 2: 010 is another number for YAML 1.1 than for YAML 1.2; write it as a plain decimal"),
        ("a: 1:30\n", "line 1: 1:30 is another number for YAML 1.1 than for YAML 1.2; write it as a plain decimal"),
        ("a: " + "[" * 3000 + "]" * 3000, "line 1: more than 20 levels, one inside another"),
        ("- " * 3000, "line 1: more than 20 levels, one inside another"),
        ("- a\n", "a config is keys and values, such as `name: first`, not a list"),
    ],
)
def test_what_is_no_mapping_is_said_with_the_file_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'some.yaml'}:")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"fingerprint": "12345e67", "other": "0e123456", "number": "123", "flag": "yes", "nothing": "null"},
        {"rate": 1e-4, "small": 5e-324, "large": 1.7976931348623157e308, "whole": 2.0, "count": 2},
        {"betas": [0.9, 0.98], "section": {"key": None, "text": "ä: #'\"\n"}},
    ],
)
def test_what_is_written_is_read_back(tmp_path: Path, tree: dict[str, Any]) -> None:
    assert read(tmp_path, as_text(tree)) == tree


def test_keys_are_written_in_their_order() -> None:
    assert as_text({"b": 1, "a": {"d": "Ü", "c": None}}) == "b: 1\na:\n  d: Ü\n  c: null\n"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "null"),
        (True, "true"),
        (0.9, "0.9"),
        ("multi30k", "multi30k"),
        ("12345e67", "'12345e67'"),
        ([0.9, 0.98], "[0.9, 0.98]"),
        ({"a": {"b": 1}}, "{a: {b: 1}}"),
        ("one\ntwo", "'one two'"),
        ("word " * 100, f"'{'word ' * 100}'"),
    ],
)
def test_a_value_is_said_in_one_line(value: object, line: str) -> None:
    assert as_line(value) == line
