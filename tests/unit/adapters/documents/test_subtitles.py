"""Sentences of subtitles are translated across cues; everything but their words stays in its place."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
from tables import read_tables
from transformer_cli.adapters.documents.subtitles import parse_subtitles
from transformer_cli.errors import DataError

TIMES = "{0}\n00:00:{0:02},000 --> 00:00:{0:02},900\n"


def srt(*cues: str) -> str:
    return "".join(f"{TIMES.format(number)}{cue}\n\n" for number, cue in enumerate(cues, start=1))


def texts(text: str) -> list[str]:
    return [block.text for block in parse_subtitles(text.encode(), ("en", "de")).documents[0].blocks]


def translated(text: str, translate: object) -> str:
    opened = parse_subtitles(text.encode(), ("en", "de"))
    return opened.render([translate(block) for block in opened.blocks]).decode()  # type: ignore[operator]


TABLES = read_tables(Path(__file__).with_name("subtitles.txt"))
FILES = {
    **{srt(*cues.split(" ¦ ")): texts.split(" ¦ ") for cues, texts in TABLES["sentences"]},
    "1\n00:00:01,000 --> 00:00:02,000\nA dog\n\n2\n00:01:02,000 --> 00:01:03,000 X1:1\nA cat": ["A dog", "A cat"],
    "\ufeff" + srt("A dog.").replace("\n", "\r\n"): ["A dog."],
    "WEBVTT - x\n\nNOTE n\n\nid\n00:01.000 --> 00:02.000 line:0\n<v A>A &amp; <00:01.500>B\n\nSTYLE\na {}\n": ["A & B"],
    "WEBVTT\n\n00:01.000 --> 00:02.000\n<ruby>犬<rt>いぬ</rt></ruby> a <ruby>猫<rt.a>ねこ</ruby>\n": ["犬 a 猫"],
    srt(*["a b"] * 8): ["a b"] * 8,
    "WEBVTT\n\n00:01.000 --> 00:02.000\n \nA dog.\n\nNOTE c\n": ["A dog."],
}


@pytest.mark.parametrize(("text", "expected"), FILES.items(), ids=range(len(FILES)))
def test_subtitles_sentences_are_blocks_and_the_rest_stays(text: str, expected: list[str]) -> None:
    assert texts(text) == expected
    assert translated(text, lambda block: (block.text, [])) == text
    new = translated(text, turned)
    assert new != text
    assert translated(new, turned) == text


def test_subtitles_words_are_divided_among_cues_in_proportion() -> None:
    text = srt("A dog is", "running. A <i>cat</i>", "sleeps.")
    opened = parse_subtitles(text.encode(), ("en", "de"))
    found = opened.render([("Ein Hund rennt gerade.", []), ("Eine sehr kleine Katze schläft.", [])]).decode()
    assert re.sub("</?i>", "", found) == srt("Ein Hund", "rennt gerade. Eine sehr", "kleine Katze schläft.")
    stray = srt("A dog\n</i>, a cat.")
    assert translated(stray, lambda block: (block.text, [])) == stray


@pytest.mark.parametrize(("translation", "written"), TABLES["words"])
def test_subtitles_each_cue_gets_a_word_while_there_are_enough(translation: str, written: str) -> None:
    cues = written.replace("∅", "").split(" ¦ ")
    opened = parse_subtitles(srt("Ein Mann", "schläft", "gerade", "ein.").encode(), ("de", "en"))
    assert opened.render([(translation, [])]).decode() == srt(*cues)
    assert opened.blocks[0].find_gaps(translation, []) == (False, "" in cues)


def rolling(*words: str) -> str:
    """Two lines that roll up, with word times, as YouTube's are."""
    one, two, three, four = words
    times = "00:0{}.000 --> 00:0{}.000 position:0%\n"
    return (
        f"WEBVTT\n\n{times.format(1, 2)} \n{one}<00:00:01.200><c> {two}</c>\n\n{times.format(2, 3)}{one} {two}\n \n\n"
        f"{times.format(3, 4)}{one} {two}\n{three}<00:00:03.500><c> {four}</c>\n\n{times.format(4, 5)}{three} {four}\n"
    )


def test_subtitles_that_roll_up_keep_word_times_and_repeat_the_translation() -> None:
    opened = parse_subtitles(rolling("Ein", "Hund", "läuft", "gerade.").encode(), ("de", "en"))
    assert [block.text for block in opened.blocks] == ["Ein Hund läuft gerade."]
    assert opened.render([("A dog is running.", [])]).decode() == rolling("A", "dog", "is", "running.")
    apart = srt("Nein", "Nein")
    assert texts(apart) == ["Nein Nein"]


LINES = ["1\n", "00:00:01,000 --> 00:00:02,000\n", "\n", "A dog ", "runs.\n", "<i>", "</i>", "- ", "{\\an8}", "\r\n"]


SOUNDS = ["♪\n", "(", ")\n", "* ", "*\n", "ANN: "]


@given(st.lists(st.sampled_from([*LINES, *SOUNDS, "犬。", "&amp;", "<\n", "WEBVTT\n"]), max_size=25).map("".join))
def test_subtitles_any_text_keeps_everything(text: str) -> None:
    text = text.replace("<\n", "\n") if text.startswith("WEBVTT") else text  # there, it begins a tag
    try:
        assert translated(text, lambda block: (block.text, [])) == text
    except DataError:
        return
    assert translated(translated(text, turned), turned).lower() == text.lower()


def test_subtitles_element_across_cues_keeps_the_cues_in_order() -> None:
    text = srt("<i>A dog</i>", "<i>is running.</i>", "A cat.")
    found = translated(text, backwards)
    times = re.compile(r"\d+\n\S+ --> \S+")
    assert times.findall(found) == times.findall(text)
    assert found.startswith(f"{TIMES.format(1)}<i>")


def test_subtitles_webvtt_entities_are_decoded_and_arrows_escaped() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nA &#228; & &Auml; b.\n"
    assert texts(text) == ["A ä & Ä b."]
    assert translated(text, lambda _: ("a --> b <i>", [])).endswith("\na --&gt; b &lt;i>\n")


def test_subtitles_without_times_are_refused() -> None:
    with pytest.raises(DataError, match="not subtitles"):
        parse_subtitles(b"A dog.", ("en", "de"))


def test_subtitles_cue_with_malformed_times_is_kept_and_counted() -> None:
    text = srt("A dog.") + "2\n00:00:04,0 --> xx\nA cat.\n\n3\n0:01 --> 0:02\nA cow.\n\n" + srt("A fox.")
    assert texts(text) == ["A dog.", "A fox."]
    assert +parse_subtitles(text.encode(), ("en", "de")).kept == {"malformed times": 2}
    assert not +parse_subtitles(srt("A dog -->").encode(), ("en", "de")).kept


def test_subtitles_cues_of_data_are_kept_and_counted() -> None:
    data = [
        "s.jpg#xywh=0,0,9,9",
        "my s#xywh=percent:1,2,3,4\nb.webp?x=1",
        "https://x.de/Hund",
        '{"a":\n["Hund"]}',
        "[{}]",
    ]
    text = srt(*data, "data:image/png;base64,AbC=").replace("\n\n", "\r\n\r\n")
    assert translated(text, turned) == text
    assert +parse_subtitles(text.encode(), ("en", "de")).kept == {"data": 6}
    prose = ["{dog", "[" * 9_999 + "a", '"Dog"', "Data: dog", "a.jpg is red"]
    assert texts(srt(*prose)) != []
    assert not +parse_subtitles(srt(*prose).encode(), ("en", "de")).kept
