"""Configs: what loads, and the errors for what does not (see wrong_configs.txt)."""

import json
import math
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest

from tables import read_table, read_tables
from transformer_cli.config import load as module
from transformer_cli.config.comments import commented_settings
from transformer_cli.config.load import differences, dump_config, load_config, settings_by_key, translation_settings
from transformer_cli.config.schema import Affects, Config, DecodingConfig, TranslationSettings, keys_affecting
from transformer_cli.config.yaml_text import dump_yaml, inline_yaml, parse_yaml
from transformer_cli.errors import ConfigError

WRONG = read_table(Path(__file__).with_name("wrong_configs.txt"))
TABLES = read_tables(Path(__file__).with_name("changes.txt"))
WRONG_OVERRIDES = read_table(Path(__file__).with_name("wrong_overrides.txt"))
CONFIGS = Path(__file__).parents[3] / "configs"
YAMLS = sorted(CONFIGS.rglob("*.yaml"), key=lambda path: path.stem)
TOO_LARGE = "not YAML: line {}: more than 100,000 nodes, with all that its aliases repeat"
NINE = "training: {epochs: nine}"
OWN_FILES = """
data:
  corpus: files
  files:
    train: {source: a.en, target: ../a.fr}
    valid: {source: /b.en, target: ~/b.fr}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "own.yaml"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, which is not that of `path`."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def load(path: Path, text: str, *overrides: str) -> Config:
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def mistake(path: str | Path | None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def doubled(value: str) -> str:
    """Lines of YAML, each of which has the one before it twice."""
    return "".join(f"\n{b}: &{b} {value.format(a)}" for a, b in pairwise(ascii_lowercase))


def test_load_config_finds_every_shipped_config_by_name(here: Path) -> None:
    (here / "demo").mkdir()  # a folder is not a config
    assert len(YAMLS) > 5
    assert [*module.shipped_configs()] == [path.stem for path in YAMLS]
    for path in YAMLS:
        assert load_config(path.stem) == load_config(path)
    assert load_config("multi30k") == load_config() == Config()


def test_load_config_file_takes_precedence_over_shipped(here: Path) -> None:
    (here / "demo").write_text("name: mine", encoding="utf-8")
    assert (load_config("demo").name, load_config("subwords").name) == ("mine", "subwords")


@pytest.mark.parametrize(("overrides", "name"), [*TABLES["run names"], ("", "multi30k")])
def test_run_name_follows_corpus_and_languages(overrides: str, name: str) -> None:
    assert load_config(None, overrides.split()).run_name == name


def test_load_config_empty_file_is_the_defaults(path: Path) -> None:
    assert load(path, "# nothing\n") == Config()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, 1e-4) for text in ("1e-4", "1.e-4", "1.0e-4", "0.0001", "1E-4", ".1e-3", "+1e-4")),
        *(("-2.E+3", -2000.0), (".inf", math.inf), ("12", 12), ("010", 10), ("25_000", 25_000), ("'010'", "010")),
        *(("1e", "1e"), ("12345e67x", "12345e67x"), ("0x1f", "0x1f"), ("1:30", "1:30"), ("2020-13-45", "2020-13-45")),
        *(("", None), ("yes", True), ("Größe", "Größe"), ("[0.9, 9e-1]", [0.9, 0.9]), ("{a: b}", {"a": "b"})),
    ],
)
def test_parse_yaml_reads_numbers_as_yaml_1_2(text: str, value: object) -> None:
    found = parse_yaml(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        *((None, "null"), (True, "true"), (0.9, "0.9"), (1e-9, "1e-9"), (-math.inf, "-.inf"), ("010", "'010'")),
        *(("12345e67", "'12345e67'"), ([0.9, 0.98], "[0.9, 0.98]"), ({"a": {"b": 1}}, "{a: {b: 1}}")),
        *(("one\ntwo", '"one\\ntwo"'), ("a  b\xa0c", "a  b\xa0c"), ("word " * 100, f"'{'word ' * 100}'")),
        *(("no", "'no'"), ("08", "'08'")),
    ],
)
def test_inline_yaml_is_one_line_and_parses_back(value: object, line: str) -> None:
    assert inline_yaml(value) == line
    assert parse_yaml(f"[{line}]") == [value]
    assert parse_yaml(dump_yaml({"a": value})) == {"a": value}


@pytest.mark.parametrize(
    "text",
    [
        *("name: 'null'", "name: '123'", "name: '1e5'", "data: {fingerprint: '12345678'}"),
        *("data: {fingerprint: '12345e67'}", "data: {fingerprint: '0e123456'}"),
        "training: {betas: [0.9, 0.98], eps: 1e-9, learning_rate: 7.0e-4, clip_grad_norm: null}",
        "data: {joint_vocabulary: true}\nmodel: {tie_embeddings: all, positions: sinusoidal, max_length: null}",
        OWN_FILES + "    test-1.x: {source: 'ä ö', target: 'yes'}",
    ],
)
def test_dump_config_loads_as_itself(path: Path, text: str) -> None:
    config = load(path, text)
    assert config != Config()
    assert load(path, dump_config(config)) == config


@pytest.mark.usefixtures("here")
def test_load_config_file_paths_are_relative_to_it(path: Path, tmp_path: Path) -> None:
    found = [place for _, place in load(path, OWN_FILES).data.texts]
    expected = [tmp_path / "a.en", tmp_path.parent / "a.fr", Path("/b.en"), Path.home() / "b.fr"]
    assert found == expected


def test_load_config_set_and_python_paths_are_relative_to_cwd(path: Path, tmp_path: Path, here: Path) -> None:
    config = load(path, OWN_FILES, "data.files.valid.source=c.en", "data.files.train.target=~/c.fr")
    texts = dict(config.data.texts)
    assert texts["valid.source"] == here / "c.en"
    assert texts["train.target"] == Path("~/c.fr").expanduser()
    assert texts["train.source"] == tmp_path / "a.en"
    files: dict[str, Any] = {
        "train": (Path("a.tmx"), {"source": Path("a.en"), "target": "a.fr"}),
        "valid": Path("v.tmx"),
    }
    given: Any = {"initialize_from": Path("runs/x"), "extra_valid": (Path("old.tsv"), "valid"), "epochs": np.int64(3)}
    config = load_config(data={"corpus": "files", "files": files}, training=given)
    assert {place for _, place in config.data.texts} == {here / name for name in ("a.tmx", "a.en", "a.fr", "v.tmx")}
    training = config.training
    assert (training.initialize_from, training.epochs) == ("runs/x", 3)
    assert training.extra_valid == (str(here / "old.tsv"), "valid")
    with pytest.raises(ConfigError, match=r"training\.epochs: must be a whole number, not <class 'object'>$"):
        load_config(training={"epochs": object})


def test_load_config_file_lists_have_numbered_names(path: Path, tmp_path: Path) -> None:
    text = "data: {corpus: files, files: {train: [a.tmx, {source: b.de, target: b.en}], valid: c.tsv}, columns: [2, t]}"
    config = load(path, text)
    names = {"train.1": "a.tmx", "train.2.source": "b.de", "train.2.target": "b.en", "valid.1": "c.tsv"}
    assert dict(config.data.texts) == {name: tmp_path / file for name, file in names.items()}
    assert config.data.columns == ("2", "t")
    assert load(path, dump_config(config)) == config
    assert load(path, commented_settings(config)) == config


def test_load_config_unknown_home_is_an_error(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^'~nobody-at-all/a.en': not a path: "):
        load(path, OWN_FILES, "data.files.train.source=~nobody-at-all/a.en")
    with pytest.raises(ConfigError, match="nobody-at-all"):
        load(path, "model: {vectors: {source: ~nobody-at-all/v.vec}}")


def test_load_config_makes_vectors_paths_absolute(path: Path, tmp_path: Path, here: Path) -> None:
    text = "model: {vectors: {source: my.vec, target: glove, freeze: true}}"
    vectors = load(path, text).model.vectors
    assert (vectors.source, vectors.target, vectors.freeze) == (str(tmp_path / "my.vec"), str(tmp_path / "glove"), True)
    vectors = load(path, text, "model.vectors.target=sub/vectors").model.vectors
    assert (vectors.source, vectors.target) == (str(tmp_path / "my.vec"), str(here / "sub/vectors"))


@pytest.mark.parametrize(
    ("vectors", "pretrained"),
    [
        ("", {}),
        ("source: /name", {"source": "/name"}),
        ("target: /name", {"target": "/name"}),
        ("source: /name, target: /name", {"source": "/name"}),
    ],
)
def test_pretrained_with_tied_embeddings_has_one_side(path: Path, vectors: str, pretrained: dict[str, str]) -> None:
    text = f"data: {{joint_vocabulary: true}}\nmodel: {{tie_embeddings: all, vectors: {{{vectors}}}}}"
    assert load(path, text).model.pretrained == pretrained
    untied = load(path, text, "model.tie_embeddings=target+output").model.pretrained
    assert untied == {**pretrained, **({"target": "/name"} if "target" in vectors else {})}


@pytest.mark.parametrize(("override", "change"), [*TABLES["changes"], (" training.seed = 3", "training.seed 3")])
def test_set_changes_one_key(override: str, change: str) -> None:
    key, value = change.split(" ", 1)
    assert settings_by_key(load_config(None, [override])) == {**settings_by_key(Config()), key: json.loads(value)}


def test_set_overrides_the_file_and_earlier_sets(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load(path, "name: a\ntraining: {seed: 1, epochs: 4}", "training.seed=2", "training.seed=3", "name=b")
    assert (config.name, config.training.seed, config.training.epochs) == ("b", 3, 4)
    assert caplog.messages == ["training.seed=2: ignored, since training.seed=3 follows"]


def test_every_setting_affects_one_thing() -> None:
    marked = {kind: keys_affecting(kind) for kind in Affects}
    assert sum(map(len, marked.values())) == len(settings_by_key(Config()))
    assert marked[Affects.LOCATION] == {
        *("data.files", "data.tokenizer_from", "model.vectors.source", "model.vectors.target"),
        *("training.initialize_from", "training.extra_valid", "training.replay"),
    }
    resumed = {
        *("epochs", "max_steps", "validate_every", "patience", "save_minutes", "tensorboard", "examples"),
        *("device", "num_threads", "precision"),
    }
    free = {key for key in marked[Affects.NOTHING] if not key.startswith("decoding.")}
    assert free == {"name", "data.allow_keys", *(f"training.{key}" for key in resumed)}
    assert not any(key.startswith("decoding.") for kind in Affects if kind != Affects.NOTHING for key in marked[kind])
    assert {key.partition(".")[0] for key in marked[Affects.DATASET] | marked[Affects.CODEC]} == {"data"}


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[wrong for wrong, _ in WRONG])
def test_load_config_wrong_config_raises_its_error(path: Path, wrong: str, said: str) -> None:
    if wrong.startswith("--set "):
        assert mistake(None, wrong.removeprefix("--set ")) == f"{wrong.removeprefix('--set ')}: {said}"
    else:
        path.write_text(wrong, encoding="utf-8")
        assert mistake(path) == f"{path}: line 1: {said}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nmodel:\n  d_ff: 1\n  dropout: x\n   y\n", "line 4: model.dropout: must be a number, not x y"),
        ("name: a\nmodel:\n  d_model: 9\n", "line 2: model: num_heads: 8 does not divide d_model 9; choose a divisor"),
        ("name: a\n? [b]\n: 2\n", "line 2: not YAML: found unhashable key"),
        ("name: !!python/object:os.system a", "line 1: not YAML: could not determine a constructor for the tag"),
        ("name: a\0b", "not YAML: unacceptable character #x0000: special characters are not allowed"),
        ("- " * 3000, "not YAML: line 1: more than 20 levels"),
        ("name: " + "[" * 400 + "]" * 400, "not YAML: line 1: more than 20 levels"),
        ("a: &a {x: 1}" + doubled("{{<<: [*{0}, *{0}]}}"), TOO_LARGE.format(15)),
        ("a: &a {x: 1}" + doubled("{{<<: *{0}, of_{0}: *{0}}}"), TOO_LARGE.format(15)),
        ("a: &a [x]" + doubled("[*{0}, *{0}]"), TOO_LARGE.format(16)),
        ("model: &a\n  d_model: *a\n", TOO_LARGE.format(2)),
        (f"training: {{epochs: {'9' * 5000}}}", "not YAML: Exceeds the limit (4300 digits) for integer string conver"),
    ],
)  # fmt: skip
def test_load_config_error_names_file_and_line(path: Path, text: str, message: str) -> None:
    path.write_text(text, encoding="utf-8")
    assert mistake(path).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (None, ["name=a", "name=["], "name=[: line 1: not YAML: "),
        (None, ["training={seed: 1, seed: 2}"], "training={seed: 1, seed: 2}: line 1: not YAML: 'seed' occurs twice"),
        (None, ["name=a", "name.a=1"], "name.a=1: name has no keys below it"),
        (None, ["training={seed: x}"], "training={seed: x}: training.seed: must be a whole number, not x"),
        (None, ["name=a", "training.schedule=inverse_sqrt"], "the settings: training: warmup_steps: schedule inverse"),
        (NINE, ["training.seed=1"], "{path}: line 1: training.epochs: must be a whole number, not nine"),
        (NINE, ["training.epochs=x"], "training.epochs=x: training.epochs: must be a whole number, not x"),
        (NINE, ["training.epochs=x", " training.epochs = y"], " training.epochs = y: training.epochs: must be a whole"),
        (NINE, ["training.epoch=3"], "training.epoch=3: training.epoch: unknown key; did you mean epochs? (and 1 mo"),
    ],
)
def test_load_config_error_names_option_or_line(
    path: Path, text: str | None, overrides: list[str], message: str
) -> None:
    path.write_text(text or "", encoding="utf-8")
    assert mistake(path if text else None, *overrides).startswith(message.replace("{path}", str(path)))


def test_differences_list_settings_without_ignored() -> None:
    changes = ["training.seed=1", "training.betas=[0.9, 0.98]", "model.head_dim=8", "data.fingerprint='12345678'"]
    new = load_config(None, changes)
    assert differences(Config(), new) == [
        "data.fingerprint: null → '12345678'",
        "model.head_dim: null → 8",
        "training.betas: [0.9, 0.999] → [0.9, 0.98]",
        "training.seed: 0 → 1",
    ]
    ignored = ["training.seed", "data.fingerprint", "model.head_dim"]
    assert differences(Config(), new, ignored) == ["training.betas: [0.9, 0.999] → [0.9, 0.98]"]
    assert differences(new, new) == []


def test_differences_list_added_and_removed_files(path: Path, tmp_path: Path) -> None:
    with_test = load(path, OWN_FILES + "    test: {source: c, target: d}")
    without = load(path, OWN_FILES)
    gone = {"source": tmp_path / "c", "target": tmp_path / "d"}
    assert differences(with_test, without) == [f"data.files.test.{side}: {path} → null" for side, path in gone.items()]
    assert differences(without, with_test)[0] == f"data.files.test.source: null → {gone['source']}"


def test_translation_settings_apply_overrides_then_named() -> None:
    kept = DecodingConfig(beam_size=5, length_penalty=0.6)
    assert translation_settings(kept, {}) == TranslationSettings(beam_size=5, length_penalty=0.6)
    overrides = ["decoding.length_penalty=1", " decoding.no_repeat_ngram_size = 3", "decoding.beam_size=2"]
    assert translation_settings(kept, {}, overrides[:2]) == TranslationSettings(beam_size=5, no_repeat_ngram_size=3)
    assert translation_settings(kept, {}, overrides).beam_size == 2
    named = translation_settings(kept, {"beam_size": 4, "n_best": 3}, overrides)
    assert named == TranslationSettings(beam_size=4, n_best=3, no_repeat_ngram_size=3)
    assert translation_settings(named, {"prefix": "the"}) == named.model_copy(update={"prefix": "the"})


@pytest.mark.parametrize(("override", "message"), WRONG_OVERRIDES)
def test_translation_settings_refuse_training_overrides(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        translation_settings(DecodingConfig(), {}, ["decoding.top_k=3", override])
    assert str(caught.value).startswith(f"{override}: {message}")


CLASH = "decoding: sample: true draws tokens at random, but a beam of 5 "


@pytest.mark.parametrize(
    ("kept", "overrides", "named", "message"),
    [
        ({"beam_size": 5}, ["decoding.sample=true"], {}, f"decoding.sample=true: {CLASH}"),
        ({"sample": True}, ["decoding.top_k=3", "decoding.beam_size=5"], {}, f"decoding.beam_size=5: {CLASH}"),
        ({"sample": True}, ["decoding.top_k=3"], {"beam_size": 5}, f"beam_size=5: {CLASH}"),
        ({}, ["decoding.top_k=3"], {}, "decoding.top_k=3: only used in sampling; add decoding.sample"),
        ({}, [], {"seed": 3}, "seed=3: only used in sampling; add decoding.sample=true, or leave"),
        ({}, ["decoding.top_k=3"], {"beam_size": 0}, "beam_size=0: decoding.beam_size: must be at least 1, not 0"),
    ],
)
def test_translation_settings_clash_names_the_option(
    kept: dict[str, Any], overrides: list[str], named: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        translation_settings(DecodingConfig(**kept), named, overrides)
    assert str(caught.value).startswith(message)
