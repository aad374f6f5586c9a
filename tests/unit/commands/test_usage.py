"""Wrong usage: options that need or rule out each other. Exit code 2, with the usage."""

from collections.abc import Callable
from pathlib import Path

import pytest

Tfm = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("translat",),
        ("translate", "--beams"),
        ("translate", "--beam-size", "many"),
        ("translate", "--n-best", "0", "Hallo"),
        ("translate", "--n-best", "10000", "--set", "decoding.sample=true", "Hallo"),
        ("evaluate", "--n-best", "2"),
        ("translate", "--max-tokens", "0", "Hallo"),
        ("translate", "--tokens", "--json", "Hallo"),
        ("translate", "--input", "file", "Hallo"),
        ("inspect",),
        ("inspect", "--kind", "both", "Hallo"),
        ("inspect", "--json", "--output", "file", "Hallo"),
        ("evaluate", "--input", "file"),
        ("evaluate", "--reference", "file"),
        ("evaluate", "--input", "file", "--reference", "file", "--split", "test"),
        ("compare",),
        ("compare", "A"),
        ("compare", "A1,A2"),
        ("compare", "A", "B", "--input", "file"),
        ("compare", "A", "B", "--reference", "file", "--split", "test"),
        ("compare", "A1,A2", "B1,B2", "--examples", "1"),
        ("compare", "A", "B", "--examples", "-1"),
        ("score", "--input", "file"),
        ("score", "--target", "file"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = tfm(*arguments, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "Usage: tfm" in err


@pytest.mark.parametrize("sentences", [(), ("Hallo", "Hund"), ("--input", "file")], ids=len)
def test_attention_is_drawn_of_one_sentence(tfm: Tfm, tmp_path: Path, sentences: tuple[str, ...]) -> None:
    code, out, err = tfm("translate", "--attention", "a.png", *sentences, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "give exactly one" in err


def test_attention_is_drawn_of_one_model(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("translate", "--attention", "a.png", "-r", "one", "-r", "other", "Hallo", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "give one --run" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--query", "the"), "need --vectors"),
        (("--scale", "none"), "need --vectors"),
        (("--vectors", "a.vec", "--run", "tiny"), "used together with --run"),
        (("--vectors", "a.vec", "--device", "cpu"), "used together with --device"),
        (
            ("--vectors", "a.vec", "--kind", "cross", "--layer", "0", "--head", "1"),
            "together with --kind, --layer, --head",
        ),
        (("--vectors", "a.vec", "--on-error", "truncate"), "used together with --on-error"),
        (("--vectors", "a.vec", "--set", "decoding.beam_size=2"), "used together with --set"),
        (("--vectors", "a.vec", "--scale", "half"), "'half'"),
    ],
)
def test_options_of_a_model_and_of_word_vectors_exclude_each_other(
    tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    code, out, err = tfm("inspect", *arguments, "the cat", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert complaint in " ".join(err.split())
