"""What is done with a run's folder follows from the settings alone: a new run, the old one, or a refusal."""

from pathlib import Path

import pytest

from tables import read_table
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.training.decision import decide

RUN = ("data.fingerprint=0badcafe", "training.precision=float32", "training.shards=2")  # what a run's config has
DECISIONS = read_table(Path(__file__).with_name("decisions.txt"))
FILES = ("data.corpus=files", "data.held_out.valid=0.1")


def settings(*overrides: str) -> Config:
    return load_config(None, overrides)


@pytest.mark.parametrize(("settings_of_both", "expected"), DECISIONS)
def test_decide_compares_settings(settings_of_both: str, expected: str) -> None:
    found, wanted = (each.replace("RUN", " ".join(RUN)).split() for each in settings_of_both.split("|"))
    before = None if found == ["no", "run"] else settings(*found)
    decision = decide(settings(*wanted), before, precision="float32", shards=3, lost=["/gone/a.vec"])
    assert f"{decision.kind}: {decision.why}".removesuffix(": ") == expected


@pytest.mark.parametrize(
    ("found", "wanted", "machine", "chosen", "warning"),
    [
        (None, "auto", "bfloat16", "bfloat16", ""),
        (None, "float32", "bfloat16", "float32", ""),
        ("float32", "auto", "bfloat16", "float32", ""),
        ("bfloat16", "bfloat16", "float32", "bfloat16", ""),
        ("auto", "auto", "bfloat16", "bfloat16", ""),  # edited by the user
        ("auto", "float32", "bfloat16", "float32", ""),
        ("bfloat16", "float32", "bfloat16", "float32", "training.precision: bfloat16 until now, float32 from here on"),
        ("bfloat16", "auto", "float32", "bfloat16", "training resumes in bfloat16, as it began, which is slow on this"),
    ],
)
def test_decide_keeps_the_precision_of_a_run(
    found: str | None, wanted: str, machine: str, chosen: str, warning: str
) -> None:
    before = settings(f"training.precision={found}", "training.shards=2") if found else None
    decision = decide(settings(f"training.precision={wanted}"), before, precision=machine, shards=3)
    assert (decision.config.training.precision, decision.config.training.shards) == (chosen, 2 if found else 3)
    assert decision.warning.startswith(warning)
    assert bool(decision.warning) == bool(warning)


@pytest.mark.parametrize(
    ("found", "wanted", "compares"),
    [
        (None, ("a", None), False),  # the dataset is found by its text
        (None, ("a", "0badcafe"), True),
        ("a", ("a", None), True),
        ("a", ("a", "0badcafe"), False),  # the run's own config
        ("a", ("b", "0badcafe"), True),
    ],
)
def test_decide_compares_the_text_of_another_config(
    found: str | None, wanted: tuple[str, str | None], compares: bool
) -> None:
    def of(name: str, fingerprint: str | None) -> Config:
        files = f"data.files={{train: {{source: /{name}.de, target: /{name}.en}}}}"
        return settings(*FILES, files, f"data.fingerprint={fingerprint or 'null'}")

    before = of(found, "0badcafe") if found else None
    decision = decide(of(*wanted), before, precision="float32", shards=1)
    assert (decision.kind, decision.compares_text) == ("resume" if found else "new", compares)
    assert decision.config.data == of(wanted[0], "0badcafe" if found else wanted[1]).data
    assert decision.config.name == "files.de-en"
