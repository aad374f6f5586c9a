"""The page in a browser: what a user does and sees there."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from served import Running, running
from transformer_cli import Translator
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.runs.run import Run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no browser: the page is tested where chromium is installed", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: the page is tested with the extra dev")

expect = sync_api.expect

SENTENCE = "Der kleine Hund und der Hund."
ASKED = {"q": SENTENCE, "source": "de", "target": "en"}
WAIT = 600_000  # milliseconds
DARK, LIGHT = "rgb(18, 20, 23)", "rgb(251, 251, 250)"


@pytest.fixture(scope="module")
def deep(train_tiny: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A model of two layers that takes long sentences."""
    sizes = ("model.max_length=256", "model.num_encoder_layers=2", "model.num_decoder_layers=2")
    run = train_tiny(tmp_path_factory.mktemp("deep"), *sizes, "training.epochs=3")
    return Translator(run, "cpu")


@pytest.fixture(scope="module")
def server(deep: Translator) -> Iterator[Running]:
    with running(deep, n_workers=2) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # CI's user may be root
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """The page without text. Checks at the end that it sent requests only to its server and no script failed."""
    with opened(browser, server.url) as page:
        yield page


@contextmanager
def opened(browser: Any, url: str, **window: Any) -> Iterator[Any]:
    """The page of a server in a new window."""
    wrong: list[str] = []
    context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **window})
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    yield page
    context.close()
    assert wrong == []
    assert [each for each in asked if not each.startswith((f"{url}/", "data:"))] == []


def inspect_text(page: Any, text: str = SENTENCE) -> None:
    """Type a text and wait for its inspection."""
    page.fill("#input", text)
    expect(page.locator("#target [aria-selected=true]")).to_be_visible(timeout=WAIT)


def shares(page: Any) -> list[float]:
    """The percentages below the source words; 0 if there is none."""
    return [float(each.removesuffix(" %") or 0) for each in page.locator("#source .word small").all_inner_texts()]


def in_percent(weights: list[float]) -> Any:
    return pytest.approx([100 * weight if weight >= 0.01 else 0.0 for weight in weights], abs=0.0501)


def test_page_translates_after_a_pause_in_typing(page: Any, deep: Translator) -> None:
    expect(page.locator("#pair")).to_contain_text("German into English")
    lines = ["Der alte Mann singt.", "", "Die junge Frau wartet."]
    page.locator("#input").press_sequentially("\n".join(lines))
    expected = deep.translate(lines)
    expect(page.locator("#output")).to_have_text("\n".join(expected), timeout=WAIT)
    page.select_option("#sentence", label="2: Die junge Frau wartet.")
    expect(page.locator("#source")).to_contain_text("wartet")
    page.fill("#input", "")
    expect(page.locator("#output")).to_be_empty(timeout=WAIT)
    expect(page.locator("#inside")).to_be_hidden()


def test_page_click_selects_the_inspected_sentence(page: Any, deep: Translator) -> None:
    text = " Der alte Mann singt.  Die junge Frau wartet.\nDer Hund springt. "
    inspect_text(page, text)
    expected = deep.with_options(split_sentences=True).translate(text.split("\n"))
    assert page.locator("#output").text_content() == "\n".join(expected)
    sentences = page.locator("#output .sentence")
    expect(sentences).to_have_count(3)
    expect(sentences.nth(0)).to_have_class("sentence chosen")
    sentences.nth(1).click()
    expect(page.locator("#source")).to_contain_text("wartet")
    expect(sentences.nth(1)).to_have_class("sentence chosen")
    expect(page.locator("#output .chosen")).to_have_count(1)
    expect(page.locator("#sentence option:checked")).to_have_text("2: Die junge Frau wartet.")
    page.locator("#candidates button:not(.written)").first.click()  # its translation changes, and no other
    expect(page.locator("#undo")).to_be_visible(timeout=WAIT)
    first, _, last = sentences.all_text_contents()
    assert page.locator("#output").text_content() == f" {first}  {sentences.nth(1).text_content()}\n{last} "
    assert [first, last] == deep.translate(["Der alte Mann singt.", "Der Hund springt."])


def test_page_highlights_attended_words(page: Any, server: Running) -> None:
    inspect_text(page)
    found = server.post("/inspect/steps", **ASKED).body
    page.locator("#target .word").nth(1).hover()
    assert shares(page) == in_percent(found["attention"][1])
    page.locator("#target .word").nth(2).focus()
    assert shares(page) == in_percent(found["attention"][2])
    lit = page.locator("#source .word").evaluate_all("words => words.map(word => word.style.background)")
    strengths = [float(each.split("/")[1].strip(" )")) for each in lit]
    assert strengths == pytest.approx([weight**0.5 for weight in found["attention"][2]], abs=1e-3)
    expect(page.locator("#reading")).to_contain_text("(layer 2, all heads together)")


def test_page_layer_and_head_can_be_chosen(page: Any, server: Running) -> None:
    inspect_text(page)
    first = server.post("/inspect/attention", **ASKED, kind="cross", layer=1, head=2).body
    page.select_option("#layer", "1")
    page.select_option("#head", "2")
    expect(page.locator("#reading")).to_contain_text("(layer 1, head 2)")
    assert shares(page) == in_percent(first["weights"][0])


def test_page_fetches_other_heat_maps_on_demand(page: Any) -> None:
    inspect_text(page)
    asked: list[dict[str, Any]] = []
    page.on("request", lambda request: asked.append(request.post_data_json))
    picture = page.locator("#map")
    expect(picture).to_have_attribute("aria-label", "Attention weights of the cross, layer 2, all heads together: "
        f"{page.locator('#target .word').count()} rows, {page.locator('#source .word').count()} columns")  # fmt: skip
    page.select_option("#map-kind", "encoder")
    page.select_option("#map-layer", "1")
    page.select_option("#map-head", "2")
    label = "Attention weights of the encoder, layer 1, head 2: 9 rows, 9 columns"
    expect(picture).to_have_attribute("aria-label", label)
    assert [(each["kind"], each["layer"], each.get("head")) for each in asked] == [
        ("encoder", 2, None), ("encoder", 1, None), ("encoder", 1, 2)]  # fmt: skip
    picture.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        picture.press(key)
    expect(page.locator("#map-reading")).to_contain_text("der ← der ")


def test_page_chosen_candidate_changes_the_rest(page: Any, server: Running) -> None:
    inspect_text(page)
    found = server.post("/inspect/steps", **ASKED).body
    page.locator("#target .word").nth(1).click()
    bars = page.locator("#candidates button")
    assert bars.count() == 10
    chosen = page.locator("#candidates [aria-current=true]").inner_text()
    assert chosen.startswith(found["steps"][1]["written"]["token"])
    other = found["steps"][1]["candidates"][2]
    bars.nth(2).click()
    prefix = [found["steps"][0]["written"]["id"], other["id"]]
    again = server.post("/inspect/steps", **ASKED, prefix=prefix).body
    expect(page.locator("#output")).to_have_text(again["translation"])
    expect(page.locator("#target .picked b")).to_have_text(other["token"])
    page.click("#undo")
    expect(page.locator("#output")).to_have_text(found["translation"])
    expect(page.locator("#undo")).to_be_hidden()


def test_page_shows_vectors_and_cosines_of_repeated_words(page: Any) -> None:
    inspect_text(page)
    page.click("#vectors summary")
    expect(page.locator("#planes svg")).to_have_count(2)
    assert page.locator("#planes svg text").all_text_contents() == [
        "<sos>", "der (1)", "kleine", "hund (3)", "und", "der (5)", "hund (6)", ".", "<eos>"] * 2  # fmt: skip
    expect(page.locator("#repetitions tbody tr")).to_have_count(2)


def test_page_has_a_table_for_each_picture(page: Any, server: Running) -> None:
    inspect_text(page)
    expect(page.locator("#map canvas")).to_be_visible()
    page.click("#map-numbers summary")
    rows = page.locator("#map-numbers tbody tr")
    weights = server.post("/inspect/attention", **ASKED, kind="cross").body["weights"]
    expect(rows).to_have_count(len(weights))
    assert rows.nth(1).locator("td").all_inner_texts() == [f"{weight:.3f}" for weight in weights[1]]
    page.click("#vectors summary")
    expect(page.locator("#planes svg")).to_have_count(2)
    page.click("#plane-numbers summary")
    expect(page.locator("#plane-numbers tbody tr")).to_have_count(18)
    assert page.locator("#plane-numbers tbody th").nth(3).inner_text() == "hund (3)"


def test_page_server_error_is_shown_until_the_next_success(page: Any) -> None:
    page.fill("#input", "x " * 2001)
    said = "line 1: more than 4,000 characters; insert a line break"
    expect(page.locator("#error")).to_contain_text(said, timeout=WAIT)
    inspect_text(page)
    expect(page.locator("#error")).to_be_hidden()


@pytest.mark.parametrize("is_away", [False, True])
def test_page_error_hides_the_old_translation(page: Any, is_away: bool) -> None:
    inspect_text(page)
    page.context.set_offline(is_away)
    page.fill("#input", "Der Mann." if is_away else "x " * 2001)
    expect(page.locator("#error")).to_be_visible(timeout=WAIT)
    expect(page.locator("#output")).to_be_empty()
    for name in ("#inside", "#copy"):
        expect(page.locator(name)).to_be_hidden()


def test_page_words_and_map_show_the_same_tokens_and_weights(page: Any) -> None:
    inspect_text(page)
    words = page.locator("#target .word b").all_inner_texts()
    assert words[-1] == "<eos>"
    source = page.locator("#source .word b").all_inner_texts()
    assert (source[0], source[-1]) == ("<sos>", "<eos>")
    for kind in ("cross", "decoder"):
        page.select_option("#map-kind", kind)
        expect(page.locator("#map")).to_have_attribute("aria-label", re.compile(f"of the {kind}"))
        assert page.locator("#map .left span").all_inner_texts() == words
    page.select_option("#map-kind", "cross")
    expect(page.locator("#map .top span")).to_have_text(source)
    page.locator("#map").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    for place in range(1, len(source)):
        page.keyboard.press("ArrowRight")
        page.locator("#target .word").nth(1).hover()
        figure = page.locator("#source .word small").nth(place).inner_text()
        if figure:
            assert page.locator("#map-reading").inner_text() == f"{words[1]} ← {source[place]} {figure}"


def test_page_without_text_offers_examples(page: Any, deep: Translator) -> None:
    examples = page.locator("#examples button")
    expect(examples).to_have_count(2)
    example = examples.first.inner_text()
    examples.first.click()
    expect(page.locator("#input")).to_have_value(example)
    expect(page.locator("#input")).to_be_focused()
    expect(page.locator("#output")).to_have_text(deep.translate([example])[0], timeout=WAIT)
    expect(page.locator("#examples")).to_be_hidden()


def test_page_copies_the_translation_and_clears_the_text(page: Any) -> None:
    for button in ("#copy", "#clear"):
        expect(page.locator(button)).to_be_hidden()
    inspect_text(page, f"{SENTENCE} {SENTENCE}\n{SENTENCE}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#output").text_content()
    page.click("#clear")
    expect(page.locator("#input")).to_have_value("")
    expect(page.locator("#input")).to_be_focused()
    expect(page.locator("#output")).to_be_empty()
    expect(page.locator("#examples")).to_be_visible()


def test_page_too_long_to_inspect_is_still_translated(page: Any) -> None:
    page.fill("#input", "Hund " * 201)
    expect(page.locator("#inside-error")).to_contain_text("201 tokens, but at most 200 can be inspected", timeout=WAIT)
    expect(page.locator("#output")).not_to_be_empty()
    expect(page.locator("#inside")).to_be_hidden()


def test_page_without_a_server_offers_to_try_again(page: Any) -> None:
    page.context.set_offline(True)
    page.fill("#input", SENTENCE)
    expect(page.locator("#error")).to_contain_text("The server does not answer. Is it still running?", timeout=WAIT)
    page.context.set_offline(False)
    page.click("#error button")
    expect(page.locator("#target [aria-selected=true]")).to_be_visible(timeout=WAIT)
    expect(page.locator("#error")).to_be_hidden()


def test_page_asks_for_an_api_key(browser: Any, translator: Translator) -> None:
    with running(translator, api_key="schlüssel ¶") as found, opened(browser, found.url) as page:
        page.fill("#input", SENTENCE)
        expect(page.locator("#error")).to_contain_text("get an API key", timeout=WAIT)
        page.fill("#key-text", "guess")
        page.keyboard.press("Enter")
        expect(page.locator("#error")).to_contain_text("Invalid API key", timeout=WAIT)
        page.fill("#key-text", "schlüssel ¶")
        page.keyboard.press("Enter")
        expect(page.locator("#target")).to_contain_text("dog", timeout=WAIT)
        expect(page.locator("#key")).to_be_hidden()


def test_page_hundred_words_scroll(browser: Any, server: Running) -> None:
    words = "Der kleine Hund läuft im Park und " * 14 + "W" * 300
    with opened(browser, server.url, viewport={"width": 1100, "height": 700}) as page:
        inspect_text(page, words)
        expect(page.locator("#map canvas")).to_be_visible()
        page.click("#vectors summary")
        expect(page.locator("#planes svg")).to_have_count(2)
        assert page.locator("#source .word").count() == 103  # a run of 300 characters is cut twice
        page.locator("#map").focus()
        for width in (1100, 320):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.locator("#map").evaluate("box => box.scrollWidth > box.clientWidth")
        for _ in range(100):
            page.keyboard.press("ArrowRight")
        assert page.locator("#map").evaluate("box => box.scrollLeft > 0")


def test_page_follows_the_systems_dark_mode(browser: Any, server: Running) -> None:
    colours = "document.body.computedStyleMap().get('background-color').toString()"
    first_weight = "[...document.querySelector('#map canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"
    with opened(browser, server.url, color_scheme="dark") as page:
        inspect_text(page)
        expect(page.locator("#map canvas")).to_be_visible()
        assert page.evaluate(colours) == DARK
        dark = page.evaluate(first_weight)
        page.emulate_media(color_scheme="light")
        assert page.evaluate(colours) == LIGHT
        page.wait_for_function(f"String({first_weight}) !== '{','.join(map(str, dark))}'")


def test_page_can_be_used_by_keyboard(page: Any, server: Running) -> None:
    keyboard = page.keyboard
    expect(page.locator("#input")).to_be_focused(timeout=WAIT)  # by itself, a moment after the page is loaded
    keyboard.insert_text(SENTENCE)
    keyboard.press("Control+Enter")
    expect(page.locator("#target [aria-selected=true]")).to_be_visible(timeout=WAIT)
    for _ in range(10):
        keyboard.press("Tab")
        if page.evaluate("document.activeElement.parentElement.id") == "target":
            break
    keyboard.press("ArrowRight")
    expect(page.locator("#step-title")).to_contain_text("step 2 of")
    before = page.locator("#output").inner_text()
    for _ in range(2):
        keyboard.press("Tab")
    picked = page.evaluate("document.activeElement.querySelector('.name').innerText")
    keyboard.press("Enter")
    expect(page.locator("#target .picked b")).to_have_text(picked)
    assert page.locator("#output").inner_text() != before
    assert page.evaluate("document.activeElement.classList.contains('picked')")
    keyboard.press("End")
    expect(page.locator("#target .word").last).to_be_focused()
    page.locator("#maps > summary").focus()
    keyboard.press("Enter")
    expect(page.locator("#map canvas")).to_be_hidden()
    keyboard.press("Enter")
    expect(page.locator("#map canvas")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_page_shows_markup_as_text(page: Any) -> None:
    for text in ("<img src=x onerror=alert(1)> Hund", "שלום \u202e\u200f Hund", "a\0b"):
        inspect_text(page, text)
        assert page.locator("main img").count() == 0
        for word in page.locator("#source .word b").all_inner_texts():
            assert word.strip()
        page.fill("#input", "")
        expect(page.locator("#inside")).to_be_hidden()


def test_page_names_what_to_check_and_lines_that_are_no_terms(page: Any, server: Running) -> None:
    page.click("#glossary summary")
    page.fill("#terms", "Hund = dog dog dog\nHund = hound hound hound\nMann\tman\nStrand; seashore\n= x")
    page.fill("#input", SENTENCE)
    notes = page.locator("#notes")
    expect(notes).to_contain_text("Not read as terms (write Hund = hound): Strand; seashore, = x.", timeout=WAIT)
    asked = {**ASKED, "glossary": {"Hund": "dog dog dog|hound hound hound"}}
    (answer,) = server.post("/translate", **asked, sentences=True).body["sentences"]
    assert "repeats" in answer["check"]
    for what in answer["check"]:
        expect(notes).to_contain_text(f"{what} (“{SENTENCE}…”)")


def test_page_joins_subwords_of_a_word(browser: Any, by_subwords: Translator) -> None:
    translator = Translator(by_subwords.run, "cpu")
    with running(translator) as found, opened(browser, found.url) as page:
        inspect_text(page, "Quokka schläft.")
        words = page.locator("#source .word:not(.marker)")
        starts = [not each for each in words.evaluate_all("all => all.map(one => one.classList.contains('joined'))")]
        tokens = translator.run.codecs.source.encode("Quokka schläft.").tokens
        assert starts == [token.startswith(" ") or place == 0 for place, token in enumerate(tokens)]


def test_page_of_an_export_only_translates(browser: Any, deep: Translator, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    exported = Translator(export(deep.run.folder, tmp_path / "export").folder, device="cpu")
    with running(exported) as found, opened(browser, found.url) as page:
        page.fill("#input", f"{SENTENCE} {SENTENCE}")
        expect(page.locator("#output")).to_contain_text(deep.translate([SENTENCE])[0], timeout=WAIT)
        expect(page.locator("#inside")).to_be_hidden()
        expect(page.locator("[role=alert]:visible")).to_have_count(0)
        expect(page.locator("#output .sentence")).to_have_count(0)


def test_dropped_document_is_given_back_with_what_to_check(page: Any, deep: Translator) -> None:
    content = "Der Hund singt.\nDie 7 Frauen.\n"
    expected = deep.translate_file(content.encode(), "text")
    given = page.evaluate_handle(
        """(content) => {
          const given = new DataTransfer();
          given.items.add(new File([content], "Brief an Anna.txt"));
          return given;
        }""",
        content,
    )
    page.dispatch_event("body", "dragover", {"dataTransfer": given})
    page.dispatch_event("body", "drop", {"dataTransfer": given})
    link = page.locator("#translated-file a")
    expect(link).to_have_text("Brief_an_Anna_en.txt", timeout=WAIT)
    checked = [["line 2", ", ".join(text.to_check)] for text in expected.texts[1:]]
    rows = page.locator("#translated-file tbody tr").all()
    assert [row.locator("th, td").all_text_contents()[:2] for row in rows][-1:] == checked
    with page.expect_download() as download:
        link.click()
    assert Path(download.value.path()).read_bytes() == expected.content
    page.set_input_files("#file", files=[{"name": "a.exe", "mimeType": "", "buffer": b"x"}])
    expect(page.locator("#file-error")).to_contain_text("file format not supported", timeout=WAIT)
    expect(link).to_have_count(0)
