"""Text that looks wrong gives one warning and no error."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tables import read_tables
from transformer_cli import prepare
from transformer_cli.adapters.corpora.corpora import open_corpus, read_captions
from transformer_cli.adapters.corpora.notices import lost_letters, most_similar, other_script
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.errors import DataError
from transformer_cli.text.lines import trigrams
from transformer_cli.text.words import Tokenizer, Tokens

Sides = tuple[list[str], list[str]]
Warned = Callable[..., list[str]]

SIZES = {"train": 300, "valid": 100, "test": 1}
PAIRS = {
    split: (list(side) for side in zip(*pairs[: SIZES[split]], strict=True))
    for split, pairs in read_captions(300).items()
}
TRAIN, VALID = ((next(sides), next(sides)) for sides in (PAIRS["train"], PAIRS["valid"]))


@pytest.fixture(scope="module", autouse=True)
def sentences_are_split_once() -> Iterator[None]:
    """Nearly all sentences are the same in all tests, and spaCy takes half of their time."""
    split, seen = Tokenizer.split, dict[tuple[str, bool, str], Tokens]()

    def split_once(self: Tokenizer, text: str) -> Tokens:
        key = (self.language, self.lowercase, text)
        return seen[key] if key in seen else seen.setdefault(key, split(self, text))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokenizer, "split", split_once)
        yield


@pytest.fixture
def warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Warned:
    """Prepare a dataset of words from these sides, and return the warnings."""

    def run(train: Sides = TRAIN, valid: Sides = VALID) -> list[str]:
        files = {}
        for split, sides in (("train", train), ("valid", valid)):
            files[split] = {side: tmp_path / f"{split}.{side}" for side in ("source", "target")}
            for path, lines in zip(files[split].values(), sides, strict=True):
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        data = DataConfig.model_validate({"corpus": "files", "files": files, "min_freq": 1})
        caplog.clear()
        prepare(Config(data=data), data_dir=tmp_path / "data")
        return caplog.messages

    return run


def test_suspicious_text_plain_text_gives_no_warning(warned: Warned) -> None:
    assert warned() == []


def test_suspicious_text_same_on_both_sides_warns(warned: Warned) -> None:
    (message,) = (each for each in warned((TRAIN[0], TRAIN[0])) if "same text" in each)
    assert message == "source and target are the same text: train; correct data.files"


def test_suspicious_text_pairs_are_named_as_given(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pairs = {"train": [(line, line) for line in TRAIN[0]], "valid": [*zip(*VALID, strict=True)]}
    data = DataConfig(corpus="pairs", min_freq=1)
    prepare(Config(data=data), pairs=pairs, data_dir=tmp_path)
    assert "source and target are the same text: train; correct pairs" in caplog.messages


def test_suspicious_text_swapped_sides_warn(warned: Warned) -> None:
    said = "source and target seem swapped, compared with train: valid; correct data.files"
    assert warned(valid=VALID[::-1])[-1:] == [said]


@pytest.mark.parametrize(("lines", "number"), [(VALID[1], 0), (VALID[0], 1), (VALID[0][:1], 1), (["你好。"], 0)])
def test_most_similar_text_is_of_the_same_language(lines: list[str], number: int) -> None:
    assert most_similar(lines, [*map(trigrams, TRAIN[::-1])]) == number


def test_suspicious_text_unknown_words_in_held_out_text_warn(warned: Warned) -> None:
    odd = [f"{line} zwxq{number} vbnj{number} kjhg{number}" for number, line in enumerate(VALID[0])]
    (message,) = warned(valid=(odd, VALID[1]))
    assert message.startswith("valid, source: ")
    assert message.endswith("is this the same kind of text?")


ODDITIES: list[tuple[str, Callable[[str, str], tuple[str, str]]]] = [
    ("a source that occurs before with another target", lambda source, target: ("Ein Hund.", target)),
    ("a word many times in a row", lambda source, target: (source, target + " dog" * 5)),
    ("a word many times in a row", lambda source, target: (source + "雪舟" * 10, target)),
    ("a symbol such as ♪ on one side only", lambda source, target: (source, f"♪ {target}")),
    ("a symbol such as ♪ on one side only", lambda source, target: (f"{source} 😀", target)),
    ("different numbers on both sides", lambda source, target: (f"{source} 5 von 1.200", f"{target} 5 of 1,300")),
]


@pytest.mark.parametrize(("oddity", "make"), ODDITIES)
@pytest.mark.parametrize("n_odd", [30, 10])
def test_suspicious_text_many_odd_pairs_warn_with_an_example(
    oddity: str, make: Callable[[str, str], tuple[str, str]], n_odd: int, warned: Warned
) -> None:
    odd = [make(*pair) if number < n_odd else pair for number, pair in enumerate(zip(*TRAIN, strict=True))]
    messages = warned(([source for source, _ in odd], [target for _, target in odd]))
    if n_odd == 10:  # of 300, which is less than a twentieth
        assert messages == []
    else:
        (message,) = messages
        assert message.startswith(f"10 % of the training pairs have {oddity} (such as ")


def test_suspicious_text_good_numbers_and_repetitions_give_no_warning(warned: Warned) -> None:
    more = (" 1.200 Hunde, hopp hopp hopp ♪", " 1,200 dogs, hop hop hop, 3 ♪")
    assert warned(([line + more[0] for line in TRAIN[0]], [line + more[1] for line in TRAIN[1]])) == []


ESCAPED = (
    *(r"\u00e4", "=C3=A4", "=E4", "%C3%A4", "%E4", "%u00E4", "<U+00E4>", "&auml;", "& auml ;", "&amp;auml;"),
    *(r"\x{e4}", r"\303\244"),
)
LIKE = "text that looks like {} (train, source: 300 of the first 300 lines): "
CUT = "text that is cut into {} (train, target: 'EXAMPLE"
LOST = "text with wrong or lost letters (train, source: "


@pytest.mark.parametrize(
    ("side", "old", "new", "said"),
    [  # {} is the line; of the target, two thirds of the lines get a replacement, one fifth a {}
        (0, "", '    <tuv xml:lang="de-DE"><seg>{}</seg></tuv>', LIKE.format("XML")),
        (0, "", '{{"translation": {{"de": "{}", "en": "x"}}}}', LIKE.format("JSON")),
        (0, "", "{}\tscore\t1.0", LIKE.format("a table (TSV)")),
        (0, "", "<p>{}</p>", LIKE.format("a part of an HTML document")),
        (0, "", "Das ist <b>{}</b>", LIKE.format("markup")),
        *((1, "", new, CUT.format("subwords")) for new in ("{}@@ lich", "▁{}")),
        *((1, ".", new, CUT.format("words")) for new in (" .", " , too", " 。", " @-@ x", " -LRB- x -RRB-")),
        (1, ".", " ?", ""),  # as in French
        *((0, "ä", new, LOST) for new in ("Ã¤", "\ufffd", "?", *ESCAPED)),
        (0, "Ein ", "??? ", LOST),
        *(
            (0, ".", new, LOST)
            for new in (r".\n", r"\".", r"\'.", "& quot ; .", "& apos ; s.", "&amp;quot;.", " &#39 ; .")
        ),
        (0, "", "Er sagt: {} https://de.wikipedia.org/wiki/M%C3%A4nner", ""),
        *(
            (0, "", f"Er sagt: {{}}{more}", "")
            for more in (r" C:\neu", r" \nu", " Q&A;", ' "Ja."', " www.ab.de/c?d=1&e=2")
        ),
    ],
)
def test_suspicious_text_warns_once_with_an_example(side: int, old: str, new: str, said: str, warned: Warned) -> None:
    is_odd = [not side or (number % 3 > 0 if old else number % 5 == 0) for number in range(len(TRAIN[side]))]
    change = (lambda line: line.replace(old, new)) if old else new.format
    lines = [change(line) if odd else line for line, odd in zip(TRAIN[side], is_odd, strict=True)]
    messages = warned((TRAIN[0], lines) if side else (lines, TRAIN[1]))
    if not said:
        assert messages == []
        return
    (message,) = (each for each in messages if each.startswith(said[:20]))
    example = min((line for line, odd in zip(lines, is_odd, strict=True) if odd), key=len)[:20]
    assert message.startswith(said.replace("EXAMPLE", example))
    assert said != LOST or new in message
    assert "subwords" not in said or "): give the original text" in message


@pytest.mark.parametrize("quoted", ['"{}"', '"{} ""x"", y",', "'{}'", "„{}“", "«{}»", '"{}, und" | {}'])
def test_suspicious_text_in_quotes_warns_with_an_example(quoted: str, warned: Warned) -> None:
    choices = quoted.split(" | ")  # a program may quote lines with commas only
    lines = [choices[number % len(choices)].format(line.replace(",", "")) for number, line in enumerate(TRAIN[1])]
    (message,) = warned((TRAIN[0], lines))
    assert message.startswith("text in quotation marks (train, target: ")


@pytest.mark.parametrize(("n_same", "n_kinds", "is_said"), [(60, 1, True), (60, 2, True), (20, 1, False)])
def test_suspicious_text_one_target_of_many_sources_warns(
    n_same: int, n_kinds: int, is_said: bool, warned: Warned
) -> None:
    lines = [f"I cannot do {row % n_kinds}." if row < n_same else line for row, line in enumerate(TRAIN[1])]
    found = ", ".join(f"'I cannot do {kind}.' ({n_same // n_kinds} sources)" for kind in range(n_kinds))
    said = f"one target for many training sources: {found}; leave them out, unless they are meant"
    assert warned((TRAIN[0], lines)) == [said] * is_said


@pytest.mark.parametrize("n_lines", [2, 3_000])
def test_open_corpus_only_carriage_returns_is_refused(n_lines: int, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text(f"{TRAIN[0][0]}\r" * n_lines, encoding="utf-8")
    pair = {"source": path, "target": path}
    corpus = open_corpus(DataConfig.model_validate({"corpus": "files", "files": {"train": pair, "valid": pair}}))
    with pytest.raises(DataError, match=r"text: carriage returns \(CR\) and no newlines \(LF\)"):
        list(corpus.splits["train"](lambda *_: None))


TABLES = read_tables(Path(__file__).with_name("letters.txt"))


@pytest.mark.parametrize(("text", "found"), TABLES["other script"])
def test_other_script_names_the_share_and_letters(text: str, found: str) -> None:
    language, _, line = text.partition(": ")
    warned = other_script([line] * 10, language)
    assert (warned.evidence if warned else "") == found


@pytest.mark.parametrize(("text", "found"), TABLES["lost letters"])
def test_lost_letters_are_those_of_the_language(text: str, found: str) -> None:
    language, _, line = text.partition(": ")
    lines = [line] * (2000 // len(line.split()))
    warned = lost_letters(lines, language)
    assert (warned.evidence if warned else "") == found
    assert lost_letters(lines[1:], language) is None


def test_suspicious_text_without_umlauts_warns(warned: Warned) -> None:
    lines = [line.encode("ascii", "ignore").decode() for line in TRAIN[0]]
    (message,) = (each for each in warned((lines, TRAIN[1])) if "usual letters" in each)
    assert message.startswith("text without the usual letters of de (train, source: none of the letters ä ö ü ß in ")
