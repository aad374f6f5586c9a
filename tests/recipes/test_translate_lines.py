"""`tfm translate`: a line out for every line in, and nothing else on standard output."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Tfm = Callable[..., tuple[int, str, str]]

SENTENCES = ("Der alte Hund singt im Park.", "", "Die junge Katze schläft zu Hause.", "   ", "Der alte Hund singt.")
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES).encode()
NAMED = "Der kleine Zorro schläft am Strand."


def test_lines_keep_their_order_and_blank_ones_stay_blank(tfm: Tfm, project: Path) -> None:
    code, out, err = tfm("translate", stdin=TEXT, cwd=project)
    assert (code, err) == (0, "")
    dog, blank, cat, blank_too, short = out.split("\n")[:-1]
    assert (blank, blank_too) == ("", "")
    assert (dog, cat) == ("the old dog sings in the park.", "the young cat sleeps at home.")
    assert "dog" in short


def test_arguments_a_file_and_standard_input_are_translated_alike(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    (tmp_path / "sentences").write_bytes(TEXT)
    from_stdin = tfm("translate", stdin=TEXT, cwd=project)
    assert tfm("translate", *SENTENCES, cwd=project) == from_stdin
    assert tfm("translate", "--input", tmp_path / "sentences", cwd=project) == from_stdin


@pytest.mark.parametrize(
    "stdin",
    [
        pytest.param(TEXT.removesuffix(b"\n"), id="no newline at the end"),
        pytest.param(TEXT.replace(b"\n", b"\r\n"), id="Windows line ends"),
        pytest.param(b"\xef\xbb\xbf" + TEXT, id="byte order mark"),
        pytest.param(TEXT.replace(b" singt im", " singt\u2028im".encode()), id="a Unicode line separator in a line"),
    ],
)
def test_odd_line_ends_change_nothing(tfm: Tfm, project: Path, stdin: bytes) -> None:
    assert tfm("translate", stdin=stdin, cwd=project) == tfm("translate", stdin=TEXT, cwd=project)


def test_no_line_in_is_no_line_out(tfm: Tfm, project: Path) -> None:
    assert tfm("translate", stdin=b"", cwd=project) == (0, "", "")


def test_json_has_the_promised_keys_line_by_line(tfm: Tfm, project: Path) -> None:
    _, out, _ = tfm("translate", "--json", *SENTENCES, cwd=project)
    objects = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [value["source"] for value in objects] == list(SENTENCES)
    assert {tuple(value) for value in objects} == {
        ("source", "translation", "tokens", "log_prob", "score", "alignment", "source_tokens", "alternatives")
    }
    assert objects[0]["translation"] == "the old dog sings in the park."
    assert objects[0]["tokens"] == ["the", "old", "dog", "sings", "in", "the", "park", "."]
    assert objects[0]["log_prob"] < 0
    assert objects[0]["source_tokens"] == ["der", "alte", "hund", "singt", "im", "park", "."]
    pairs = [[int(index) for index in pair.split("-")] for pair in objects[0]["alignment"].split()]
    assert [target for _, target in pairs] == list(range(8))
    assert (pairs[1], pairs[2]) == ([1, 1], [2, 2])
    nothing = {"translation": "", "tokens": [], "log_prob": 0.0, "score": 0.0, "alignment": ""}
    assert objects[1] == {"source": "", **nothing, "source_tokens": [], "alternatives": []}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "the small zorro sleeps at the beach."),
        (("--keep-unk",), "the small <unk> sleeps at the beach."),
        (("--tokens",), "the small <unk> sleeps at the beach ."),
        (("--tokens", "--max-tokens", 4), "the small <unk> sleeps"),
        (("--max-tokens", 99), "the small zorro sleeps at the beach."),
    ],
)
def test_options_of_what_is_printed(tfm: Tfm, project: Path, options: tuple[object, ...], expected: str) -> None:
    assert tfm("translate", *options, NAMED, cwd=project) == (0, f"{expected}\n", "")


def test_a_sentence_too_long_is_named_by_its_line_and_both_lengths(tfm: Tfm, project: Path) -> None:
    code, out, err = tfm("translate", stdin=TEXT + b"Hund " * 15, cwd=project)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tfm: error: line 6: 15 tokens, but the model takes at most 14 ")
    assert "--truncate" in err


def test_truncate_cuts_what_is_too_long(tfm: Tfm, project: Path) -> None:
    words = ["Hund"] * 15
    cut = tfm("translate", " ".join(words[:14]), cwd=project)
    assert cut[0] == 0
    assert tfm("translate", "--truncate", " ".join(words), cwd=project) == cut
