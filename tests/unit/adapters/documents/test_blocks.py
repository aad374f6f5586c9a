"""Blocks are built from the calls of a parser and written back in the same places, in any script."""

import html
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oracles.translators import turned
from transformer_cli.adapters.documents.blocks import Block, Builder, Document, Inline, escaping_writer
from transformer_cli.text.alignment import Link

EVENT = re.compile(
    r"<(?P<close>/)?(?P<name>[bgi])>|<(?P<standalone>x)/>|<(?P<proportional>s)/>|(?P<block_end><p/>)|(?P<text>[^<]+)"
)


def document(source: str) -> Document:
    """Parses a small format: <b>, <g>, <i> are inline, <x/> is standalone, <s/> is proportional, <p/> ends a block."""
    builder = Builder(escaping_writer(partial(html.escape, quote=False)))
    for found in EVENT.finditer(source):
        if found["text"]:
            builder.add(Inline(found[0], html.unescape(found[0])))
        elif name := found["name"]:
            builder.add(Inline(found[0], closes=name) if found["close"] else Inline(found[0], opens=name))
        elif found["standalone"]:
            builder.add(Inline(found[0]))
        elif found["proportional"]:
            builder.add(Inline(found[0], " ", kind="proportional"))
        else:
            builder.end_block(found[0])
    builder.end_block()
    return builder.document


def spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def doubled(block: Block) -> tuple[str, list[Link]]:
    """Each word twice as long, so that all offsets change."""
    text = re.sub(r"\w+", lambda found: found[0] * 2, block.text)
    return text, list(zip(spans(block.text), spans(text), strict=True))


def rendered(source: str, translate: object) -> str:
    found = document(source)
    return found.render([translate(block) for block in found.blocks])  # type: ignore[operator]


WORDS = ["Ein ", "Hund,  ", "rot.\n", "&amp; Hund ", "läuft. ", "1 ", " "]
PIECES = [*WORDS, "<b>", "</b>", "<g>", "</g>", "<i>", "</i>", "<x/>", "<p/>"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_builder_unchanged_text_gives_the_same_bytes(source: str) -> None:
    assert rendered(source, lambda block: (block.text, [])) == source
    assert rendered(rendered(source, turned), turned) == source


@example("<g><p/><b>Ein </g>")  # which is not nested in the source either
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_render_longer_words_keep_elements_between_words(source: str) -> None:
    found = rendered(source, doubled)
    halved = re.sub(r"(?<![<&/\w])(\w+)\1(?![\w>])", r"\1", found)
    assert "".join(halved.split()) == "".join(source.split())


@pytest.mark.parametrize(
    ("source", "text", "links", "expected"),
    [
        ("Ein Hund <x/>.", "Ein Hund.", [((4, 8), (2, 5)), ((8, 9), (5, 6))], "A dog <x/>."),
        ("\n  Ein\n Hund <x/>da. ", "Ein Hund da.", [((4, 8), (2, 5)), ((11, 12), (5, 6))], "\n  A <x/>dog. "),
        ("\n  <x/> <b>Ein <x/> Hund</b> \n", "Ein Hund", [((4, 8), (2, 5))], "\n  <x/> <b>A <x/> dog.</b> \n"),
    ],
)
def test_block_outer_whitespace_is_stripped_and_restored(
    source: str, text: str, links: list[Link], expected: str
) -> None:
    found = document(source)
    assert [block.text for block in found.blocks] == [text]
    assert found.render([("A dog.", links)]) == expected


def test_render_element_does_not_cut_a_copied_placeholder() -> None:
    found, links = document("<b>ein</b> {% x y %} hund"), [((4, 13), (0, 9)), ((14, 18), (12, 15))]
    assert found.render([("{% x y %} a dog", links)]) == "{% x y %} <b>a</b> dog"
    found, links = document("{0}<x/> hund"), [((4, 8), (0, 3)), ((0, 3), (4, 7))]
    assert found.render([("dog {0}", links)]).replace(" ", "") == "dog{0}<x/>"


def test_render_element_without_words_keeps_its_source_words() -> None:
    found, links = document("<b>ein</b> <i>hund</i>"), [((0, 3), (0, 3))]
    assert found.render([("dog", links)]) == "<b>dog</b> <i>hund</i>"
    assert found.blocks[0].find_gaps("dog", links) == (True, False)
    assert found.blocks[0].find_gaps("a dog", [((0, 3), (0, 1)), ((4, 8), (2, 5))]) == (False, False)
    assert document(" <b>ein</b> <i>hund</i> ").render([("dog", links)]) == " <b>dog</b> <i>hund</i> "


def test_render_by_two_threads_at_once_gives_both_results() -> None:
    both = Barrier(2, timeout=600)

    def escape(words: str) -> str:
        both.wait()  # until the other thread is here, too
        return words

    builder = Builder(escaping_writer(escape))
    bold = Inline("ein ", "ein "), Inline("<b>", opens="b"), Inline("hund", "hund"), Inline("</b>", closes="b")
    for each in (*bold, Inline("<p>", kind="block_end"), Inline("rot", "rot"), Inline("", kind="block_end")):
        builder.add(each)
    translations = [[("a dog", [((4, 8), (2, 5))]), ("red", [])], [("chien un", [((4, 8), (0, 5))]), ("rouge", [])]]
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(builder.document.render, translations)] == [
            "a <b>dog</b><p>red",
            "<b>chien</b> un<p>rouge",
        ]


def test_builder_adjacent_standalone_elements_become_one() -> None:
    source = "Ein" + "<x/>" * 1000 + " <b><x/><x/></b>Hund" + " <x/>" * 2 + "."
    found = document(source)
    assert [len(each.opening) for each in found.blocks[0].elements] == [0, 1000, 4, 1, 2]
    assert found.render([(found.blocks[0].text, [])]) == source
    assert rendered("Ein Hund <x/><x/>.", doubled) == "EinEin HundHund <x/><x/>."


def test_builder_limits_whitespace_kept_per_element() -> None:
    source = "ein" + " <x/>" * 2_000 + " hund"
    assert rendered(source, turned) == source.swapcase().replace("X", "x")
    (block,) = document(source).blocks
    assert sum(len(each.before) + len(each.after) for each in block.elements) < 250 * len(block.elements)
