"""Wrong configs: wrong_configs.txt has the sentence that each gets."""

from pathlib import Path

import pytest

from tables import classes_named_in, read_table
from transformer_cli.config.load import load_config
from transformer_cli.errors import ConfigError

ROWS = read_table(Path(__file__).with_name("wrong_configs.txt"))


def mistake(path: Path | None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_the_table_is_long_and_says_nothing_twice() -> None:
    assert len(dict(ROWS)) == len(ROWS) > 100


@pytest.mark.parametrize(("wrong", "said"), ROWS, ids=[wrong for wrong, _ in ROWS])
def test_a_wrong_config_gets_its_sentence(tmp_path: Path, wrong: str, said: str) -> None:
    if wrong.startswith("--set "):
        assert mistake(None, wrong.removeprefix("--set ")) == f"{wrong}: {said}"
    else:
        path = tmp_path / "own.yaml"
        path.write_text(wrong, encoding="utf-8")
        assert mistake(path) == f"{path}: line 1: {said}"


def test_no_sentence_names_a_class() -> None:
    assert classes_named_in("input should be a valid dictionary or instance of FilePair") > {"FilePair", "dictionary"}
    assert {wrong: found for wrong, said in ROWS if (found := classes_named_in(said.split(", not ")[0]))} == {}
