"""Checks that reading users' text takes linear time: at most 12 times as long for 8 times the length.

`make linear` prints a table of all readers, each with its slowest input, and fails if one is too slow. A reader is a
function in READERS, with inputs made of its special characters, or a pattern compiled in a module below ROOMS, with
inputs made of the pattern's characters. The time is processor time, the best of five runs.
"""

import gc
import importlib
import pkgutil
import re
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import transformer_cli
from transformer_cli.adapters.corpora import cleaning, formats, notices
from transformer_cli.adapters.documents import json_text, markdown, markup, opendocument, po, subtitles, word, xliff
from transformer_cli.adapters.documents.blocks import Document
from transformer_cli.adapters.documents.translate import join_with_links
from transformer_cli.adapters.serve.languages import MAX_DETECT_CHARS, _probabilities
from transformer_cli.adapters.terminology import annotations, conversions, glossary, list_numbers, template_code
from transformer_cli.adapters.terminology.placeholders import PlaceholderFinder
from transformer_cli.config.schema import MAX_LINE_CHARS, DataConfig, TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.pipeline import Translation
from transformer_cli.scoring import metrics
from transformer_cli.system.terminal import display_width, escape_controls
from transformer_cli.text import alignment, line_encoder, lines, normalization, sentences
from transformer_cli.text.codec import SubwordCodec, WordCodec
from transformer_cli.text.subwords import train_subwords
from transformer_cli.text.vocabulary import SPECIALS, Vocabulary
from transformer_cli.text.words import Detokenizer

LENGTH, TIMES = 100_000, 8  # characters of the longer text, and of how many shorter ones it has the length
MOST_S, MOST_TIMES = 2.0, 12.0  # that the longer one may take, and how often as long as the shorter one
FAST_S = 0.1  # shorter times are not compared: quadratic time would be seconds
ROUNDS = 5
FINDER = PlaceholderFinder()
FEW = 5
OFFICE, ODF_SPACE = "http://schemas.openxmlformats.org/{}/2006/main", "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
NAMESPACES = {"w": OFFICE.format("wordprocessingml"), "a": OFFICE.format("drawingml")}
NAMESPACES |= {name: ODF_SPACE.format(name) for name in ("text", "style")}


def names(text: str) -> list[str]:
    return text.split()


ROOMS = ("transformer_cli.adapters.", "transformer_cli.text.", "transformer_cli.system.terminal")

Reader = Callable[[str], object]


@dataclass(frozen=True)
class Measured:
    """The times of a reader for an input."""

    given: str
    """what is repeated; in a⟨b⟩c, only b is"""
    seconds: float
    times: float
    """how often as long as for the shorter text; 0 if that is too fast to tell"""

    @property
    def is_linear(self) -> bool:
        return self.times <= MOST_TIMES and self.seconds <= MOST_S


def text_of(given: str, length: int) -> str:
    """Returns an input of this length."""
    found = re.fullmatch("(.*)⟨(.+)⟩(.*)", given, re.DOTALL)
    before, piece, after = found.groups() if found else ("", given, "")
    left = length - len(before) - len(after)
    return before + (piece * (left // len(piece) + 1))[:left] + after


def measured(reader: Reader, given: str) -> Measured:
    """Measures a reader with an input."""

    def seconds(length: int, rounds: int) -> float:
        text, best = text_of(given, length), float("inf")
        for _ in range(rounds):
            start = time.process_time()
            reader(text)
            best = min(best, time.process_time() - start)
        return best

    longer = seconds(LENGTH, 1)
    if longer < FAST_S:
        return Measured(given, longer, 0.0)
    if longer < MOST_S:
        longer = min(longer, seconds(LENGTH, ROUNDS - 1))
    return Measured(given, longer, longer / max(seconds(LENGTH // TIMES, ROUNDS), 1e-6))


def lines_of(text: str) -> list[str]:
    return [text[start : start + MAX_LINE_CHARS] for start in range(0, len(text), MAX_LINE_CHARS)]


@cache
def words() -> WordCodec:
    known = names("ein eine Hund Frau läuft am Strand und . , ( )")
    return WordCodec("de", False, Vocabulary((*SPECIALS, *known)), Detokenizer())


@cache
def subwords() -> SubwordCodec:
    text = [f"Der Hund Nummer {n} läuft am Strand, und eine Frau sieht ihm zu." for n in range(1_000)]
    return SubwordCodec(train_subwords(text, vocab_size=350, algorithm="bpe"))


def spots(text: str) -> list[alignment.Span]:
    """Returns the spans of words and signs, as of tokens."""
    return [found.span() for found in re.finditer(r"\w{1,8}|[^\w ]", text)]


def tokens(text: str) -> list[str]:
    return [text[start:end] for start, end in spots(text)]


def links_of(text: str) -> list[alignment.Link]:
    return [*zip(spots(text), spots(text), strict=True)]


def rendered(document: Document) -> object:
    """Renders a document with its words in another order, and finds where elements separate sentences."""
    for block in document.blocks:
        sentences.sentence_spans(block.text, "de", block.borders)
    found = [(block.text, [*zip(spots(block.text), spots(block.text)[::-1], strict=True)]) for block in document.blocks]
    return document.render(found)


FLAGS = [  # of gettext, one for each rule
    f"{name}-format" for name in names("c sh gcc-internal boost object-pascal lisp python-brace go qt")
]


def reordered(text: str, *flags: str) -> str:
    """Replaces conversions of printf, and restores them in another order."""
    found = conversions.Conversions()
    found.keeps_code = True
    found.start_message(flags)
    return found.restore(found.replace(text)[::-1])


def in_languages(change: Callable[[str, str], str]) -> Reader:
    """Returns a reader for languages whose capitals differ."""
    return lambda text: [change(text, code) for code in ("de", "tr", "lt")]


def put_back(text: str) -> object:
    spans = [normalization.Placeholder(start, "X", " ", " ") for start, _ in spots(text)]
    return alignment.insert_placeholders(text, text, spans, links_of(text))


def word_links(text: str) -> object:
    return alignment.word_links(text, tokens(text), f"{text}.", tokens(text), range(len(spots(text))))


def wholly(text: str) -> object:
    spans = sentences.sentence_spans(text, "de")
    found = []
    for start, end in spans:
        tokens = text[start:end].split()
        found.append(Translation(text[start:end], tokens, text[start:end], tokens, 0, 0, [], [], [*range(len(tokens))]))
    return join_with_links(text, spans, found)


def split(text: str) -> object:
    """Splits a text for a model with few positions."""
    cutting = line_encoder.LineEncoder(subwords(), 50, "truncate", FINDER.spans)
    return [cutting.split_sentences(line, "de") for line in lines_of(text)]


def clean(text: str) -> object:
    data = DataConfig().model_copy(update={"clean": names("empty copies markup length duplicates held_out")})
    pairs = ((line, line[::-1], lines.Location(Path("a"), Path("b"), 1)) for line in lines_of(text))
    return list(cleaning.clean_pairs(pairs, data, lambda *_: None, ({1}, {1}), Counter()))


def of_file(write: Callable[[str], str]) -> Reader:
    """Returns a reader of the files that `write` makes from a text."""

    def read(text: str) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(write(text))
            file.flush()
            with suppress(DataError):  # for quotes that are not closed
                deque(formats.read_texts([Path(file.name)], DataConfig(), lambda *_: None), 0)

    return read


def tmx(text: str) -> str:
    sides = "".join(f'<tuv xml:lang="{code}"><seg>{without_cut_off(text)}</seg></tuv>' for code in PAIR)
    return f"<tmx><header/><body><tu>{sides}</tu></body></tmx>"


def without_cut_off(text: str) -> str:
    """Returns XML without a tag or entity at its end that has no end."""
    return re.sub("[<&][^>;]*$", "", text)


def closed(text: str) -> str:
    """Returns XML `without_cut_off`, and with its missing end tags."""
    text, open_ = without_cut_off(text), list[str]()
    for slash, name, empty in re.findall("<(/?)([\\w:-]+)[^>]*?(/?)>", text):
        if slash:
            open_.pop()
        elif not empty:
            open_.append(name)
    return text + "".join(f"</{name}>" for name in reversed(open_))


def part(name: str, text: str, end: str = "") -> str:
    """Returns a part of an office file with a paragraph."""
    spaces = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMESPACES.items())
    return f"<x {spaces}><{name}:p>{closed(text)}{end}</{name}:p></x>"


def rendered_json(*texts: str) -> None:
    for text in texts:
        with suppress(DataError):
            opened = json_text.parse_json(text.encode(), PAIR, SETTINGS)
            opened.render([(block.text, []) for block in opened.blocks])


def message(text: str) -> bytes:
    """Returns a catalogue with a text of several lines as a message."""
    lines = "".join(f'"{line}"\n' for line in re.sub(r'\\*"|\\*$', "", text).split("\n"))
    return f'msgid ""\n{lines}msgstr ""\n'.encode()


def cues(text: str) -> bytes:
    return f"00:00:01,000 --> 00:00:02,000\n{text}".encode()


def xliff_file(text: str) -> bytes:
    """Returns a file with a unit whose source is the text."""
    attributes = " version='2.1'" * ("<segment>" in text[:100])
    return f"<xliff{attributes}><trans-unit><source>a</source></trans-unit>{closed(text)}</xliff>".encode()


def score(name: str, text: str) -> object:
    metric = metrics.text_metrics(language="en", lowercase=False)[name]
    return metric.corpus_score(lines_of(text), [lines_of(text[::-1])])


_ENTRIES = {"a": "b|c d", "a b": "a", "a a a*": "x", "Hund*": "hound", "b": "a b c", "c": "never"}
TERMS = glossary.Glossary(_ENTRIES | {f"w{n}": f"v{n}" for n in range(1_000)})

PROSE = "Ein Hund läuft am Strand, und eine Frau sieht ihm zu. "
PLACEHOLDERS = (
    "{n, plural, |{a {|} |{⟨{⟩}|=0 {|&amp;|&a|{ $a ->|$t(|<%|{%|%,(|{⟨ ⟩|"
    "Hallo %⟨0⟩|%0|%-5.|%(a|{a|{{a}|$⟨{⟩|www.⟨!⟩|www.(a|ab://|a@b.|⟨a.⟩@|a@|({a})|%s |{a} |\ufdd0|"
    r"\033[|\x1b]a"
)
CODE = "{{ \"|{{ '|{{ }} |{{'{'}}|{{\\\"|${|${}|{% %}|{%'%}|{# {|<% <p>|<%\"%>'|{{ '}} \"|{{⟨}⟩|⟨{{⟩}}|⟨{{⟩\"}}"
SENTENCES = (
    'A. |. |z. B. |。|……|a.)⟨)⟩|a. b. |J.|3. |; |A ⟨ ⟩.|⟨x⟩ A. B.|Dr. |"\'|a|{a}. |; a|🐕|\u200b|A.⟨"⟩ B|A.⟨🐕⟩ B|A.⟨»⟩'
    '|([|A. ⟨[1⟩|(A! B) |A!B|. " |1. |a.:) '
)
HTML = (
    "a ⟨<b>.</b>⟩ Welt|a ⟨<i>1</i>⟩ Welt|a<img>|<b>a</b>|<b> <i>.</i></b>|a <b>|<a x=|<a x='y' |<!--|<code>|</b>|<p>a|"
    "&amp|<a alt=\"a\" title='b'>|<i translate=no>|<rt><b translate=yes>|a<wbr> |<0>a</0>|<x-y>a|<x-y><p>a</p>|</x-y>|"
    "<table>|<b>|a|{{ a '<' }}|{% if a %}|a{% if a %}a|a{% if a %}<b>|{% if a %}a{% endif %}|{% if %}a{% endif %}|"
    "a.<b>B</b>|<i lang=fr>|<i lang=fr>a</i>|<p lang=fr>|<a hreflang=fr>a|<a>A</a>|<i><a>A</a>|"
    '<a {{ \'>\' }} b="|<p title="{% a %}|<p title="{% a'
)
RUN = "<w:r><w:t>a </w:t></w:r>"
DOCX = (
    f"{RUN}|<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>{RUN}|<w:p>{RUN}</w:p>|<w:r><w:x/></w:r>|<w:r><w:tab/></w:r>|"
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r>|<w:bookmarkStart w:id="1"/>|<w:bookmarkEnd w:id="1"/>|'
    f'<w:bookmarkStart w:id="1"/>⟨<w:bookmarkEnd w:id="1"/>⟩|<w:ins>{RUN}</w:ins>|<w:r><w:t>a⟨\n⟩</w:t></w:r>|&amp;|'
    '<w:r><w:rPr><w:lang w:val="fr"/></w:rPr><w:t> a </w:t></w:r>|'
    f'<w:r><w:ruby><w:rt/><w:rubyBase>{RUN}</w:rubyBase></w:ruby></w:r>|<w:r><docPr xmlns="x" descr="a"/></w:r>|'
    '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>DATE</w:instrText><w:fldChar w:fldCharType="separate"/></w:r>|'
    f'<w:r><w:fldChar w:fldCharType="begin"/>⟨<w:instrText>ADDIN</w:instrText>⟩|'
    f'<w:fldSimple w:instr="DATE">{RUN}</w:fldSimple>'
)
SLIDE_RUN = "<a:r><a:t>a</a:t></a:r>"
PPTX = (
    '<a:r><a:rPr lang="de" err="1"/><a:t>a</a:t></a:r>|<a:r><a:t>a⟨\t⟩</a:t></a:r>|<a:br/>|<a:fld><a:t>a</a:t></a:fld>|'
    "<a:endParaRPr/>|<a:r><a:rPr b='1'/><a:t>a </a:t></a:r><a:br/>|<a:tc><a:p><a:r><a:t>a</a:t></a:r></a:p></a:tc>"
)
ODF = (
    "<text:span>a </text:span>|a<text:s/>|<text:s text:c='2'/>|a<text:tab/>|a <text:line-break/>|<text:date/>|&amp;|"
    "<text:note><text:p>a</text:p></text:note>|<text:span>⟨<text:a>a</text:a>⟩|<text:span text:style-name='a'/>|"
    f"<style:style style:name='a' style:parent-style-name='Code'/>|{'<text:a>a' * 12}{'</text:a>' * 12}"
)
UNIT = "<trans-unit><source>a</source></trans-unit>"
XLIFF = (
    f"{UNIT}|<trans-unit><source>⟨<g>a</g>⟩|<trans-unit><source>⟨<bpt id='1'/>⟩|<trans-unit><source>⟨<ept id='1'/>⟩|"
    "<trans-unit><source>a<x/></source><seg-source>⟨<mrk mtype='seg' mid='1'>a</mrk>⟩|<trans-unit>⟨<target/>⟩|<a/>|"
    "<segment><source>⟨<pc>a</pc>⟩|<segment><source>⟨<sc id='1'/>a⟩|<segment><source>⟨<ec startRef='1'/>⟩|"
    "<segment><source>⟨<sm id='1' translate='no'/>a⟩|<segment>⟨<target>a</target>⟩|<segment>⟨<source/>⟩"
)
CUE = "\n\n00:00:01,000 --> 00:00:02,000\n"
CUES = (
    f"a\n|a {CUE}|(a\n|(a)\n|# a\n|AB: a\n|{CUE}AB\n|<00:00:01.100><c>a</c>|A. |A.\n|- a\n|<i>|a⟨<i>⟩|</i>|"
    f"<i>a</i>{CUE}|{{\\an8}}a|<i>a\n|♪\n|&a|<v a>a|"
    f'[a] |A. (a) |[A]|[ |[⟨a⟩|a⟨ ⟩[|[⟨[⟩|{CUE}a.png|{CUE}⟨a.png?⟩ a|{{⟨"a":⟩|[1,⟨1⟩]|<rt>a|<rt⟨ ⟩'
    rf"|A.<br>|a\N|\|<br⟨ ⟩|<lang fr>|<lang fr>a|<lang fr>a</lang>{CUE}a"
)
JSON = (
    '["a b",|{"a": "b",⟨"b": "c", ⟩"c": 1}|{⟨"a":{⟩|[⟨["a"],⟩0]|["⟨\\naé⟩"]|\\u00e9|\\ud800|\\udb80\\udc00|\\n|\\"|'
    "a $A$|$a|@:a.|@.a:|@|a |<b>a</b>|{{a}}|%s |{a, plural, one {|`a |-a |a-a|a_|aB|1|a.|NaN,|// a|{'a':"
)
MARKDOWN = (
    "*a|**a ** |_a_ |*_|***a** b*|a(*b)*|~~a ~~|`|``a |[|]|[a](b) |[a]|[a][b]|[a](<|![a|![a](b) |[^a] |[[a]] |$a$ |$$|"
    "{a} |{#a} |{.a b=c|\\*|\\|&amp;|> |> a\n|> [!NOTE]\n> a\n|- a\n|- |1. a\n|# a\n|a\n|a  \n|a\\\n|```\n|```{note}\n|"
    ":::note a\nb\n:::\n|!!! note\n    a\n|[^1]: a b\n|[a]: b 'c' [a]\n|---\n|<b>a</b> |<a href='b'>|<!-- |<div>\n|"
    "<div>a</div>\n\n|    a\n|a\n===\n|{{a}} |\r|犬*a*"
)
PO = (
    '<a b |<a b> |<a %s |<a b= |<a b=\\"|<a b=\'\\"|<!-- |<!a |<% |</a |<code>|<code></code>|<a|<i translate=no>|'
    "a{% if a %}a|{% '<' %}|{{ a ⟨'<' ⟩|"
    "`a <b>`_ |`a |a <b>`|:a:`a |  -a  a\\n|  -a a |\\n           |"
    "a<b>|a⟨</b>⟩|\\033[1m|a\\n|a\\nB|a |\\t|\\\\|a\n|\\n\n"
)
UNREAD = (
    "😀 |·|a ⟨ ⟩ b|a⟨\u200b⟩b|ไ\u200b|\xad|🇩🇪|1\ufe0f\u20e3|👨\u200d|A B |AB CD |\t|a⟨\u0301\u0327⟩|a⟨\u0301⟩\u0327|Σ'"
)
TOKENS = "a|(|'|😀|a.|ab-|://a|'s |1,|犬|\u0301|a\u0301"
NUMBERS, LISTS = "1|1.|1 |1 000 |12/|1.234,5 |٣", "1. a\n|1.1 a\n|\n|1. \n\n\n|i.\n|#\n"
CONVERSIONS = (
    "%s |%<PRI|%%|%(a|%-5.|%1$s|$a|%s|%<|%<a%>|%r|%'|%1:|%1|{:|{a,:|~1,|~'|%[1]|%L|%0|``|`a |:a:`|--a=|-a |--a-"
)
XHTML = "<script |<script/>|<title/>|<style a='/>'/>"
MDX = "<A b={|<A>a</A>\n|<A b={{c}}>a</A> |{/* a */}|{a\n|{|<a |</a>\n|<|import a from 'b'\n|export const a = {\n|\""
PAIR, SETTINGS = ("de", "en"), TranslationSettings()

READERS: dict[str, tuple[Reader, str]] = {
    "cleaning.clean_pairs": (clean, "<a|&a|[[|1|_|a b "),
    "cleaning.mend_encoding": (cleaning.mend_encoding, "Ã¤|Ã |â€™|â€|ä|ää|\x93"),
    "cleaning.sentence_hash": (lambda text: cleaning.sentence_hash(text, "de"), "1|_| |a1|ΑΣ"),
    "formats.read_texts": (of_file(lambda text: f"{text}\tb\n"), 'a b|""|" |a;'),
    "formats.read_texts (CSV)": (of_file(lambda text: f"de,en\n{text},b\n"), 'a b|""|" |a;'),
    "formats.read_texts (JSON)": (of_file(lambda text: f'{{"de": "{text}.", "en": "b"}}\n'), "a |\\\\ | "),
    "formats.read_texts (TMX)": (of_file(tmx), "a |&#10;|<ph/>|<!-- -->"),
    "annotations.has_repeats": (annotations.has_repeats, "a|a |a b |犬|ー|ab ba |のは|ก"),
    "notices.other_script": (lambda text: notices.other_script([text], "zh-TW"), "国|國|a|国國"),
    "notices.lost_letters": (lambda text: notices.lost_letters([text], "de"), "a |ä |a\u0308|a\u0323\u0308"),
    "annotations.missing_numbers": (lambda text: annotations.missing_numbers(text, text[::-1]), NUMBERS),
    "po.parse_po": (lambda text: po.parse_po(message(text), PAIR), PO),
    "glossary.Glossary.find": (TERMS.find, "a |a b |a a |Hund|Hunde |-|犬|w1 w2 "),
    "glossary.replace_linked_words": (
        lambda text: glossary.replace_linked_words(text, TERMS.find(text), links_of(text), [(0, 5)]),
        "a |a b |Hund |a",
    ),
    "glossary.term_spans": (lambda text: glossary.term_spans(TERMS.find(text), text), "a |a b |a a |w1 w2 w3 |c"),
    "list_numbers.with_list_numbers": (lambda text: [*list_numbers.with_list_numbers(text.split("\n"))], LISTS),
    "placeholders.PlaceholderFinder.spans": (FINDER.spans, f"{PLACEHOLDERS}|{CODE}"),
    "conversions.Conversions": (
        lambda text: [reordered(text), *(reordered(text, each) for each in FLAGS)],
        CONVERSIONS,
    ),
    "conversions.has_other_directives": (
        lambda text: [conversions.has_other_directives(text, text, [each]) for each in ("other-format", *FLAGS)],
        "%s |%%|%|%1|%-|~,|~~|{|{}|$|${a|%(",
    ),
    "template_code.code_ends": (lambda text: template_code.code_ends(text, "<p>"), CODE),
    "alignment.original_spans": (
        lambda text: alignment.original_spans(text, text, spots(text), []),
        "a |e\u0301|\xad|ß|ﬂ|…",
    ),
    "alignment.insert_placeholders": (put_back, "a |a|a.|.|犬|. "),
    "alignment.token_spans": (lambda text: alignment.token_spans(text, tokens(text)), "a |a|é|e\u0301|\xad|."),
    "alignment.word_boundaries": (alignment.word_boundaries, "a|a |犬|\u0301|-"),
    "alignment.word_links": (word_links, "a |ab|é |\u0301"),
    "line_encoder.LineEncoder.split_sentences": (split, SENTENCES),
    "line_encoder.bounded_sentence_spans": (
        lambda text: line_encoder.bounded_sentence_spans(text, "de", FINDER.spans),
        SENTENCES,
    ),
    "markup.parse_html": (lambda text: markup.parse_html(text, PAIR), HTML),
    "markup.parse_html (XHTML)": (lambda text: markup.parse_html(f"<?xml ?>{text}"), XHTML),
    "blocks.Document.render": (lambda text: rendered(markup.parse_html(text)), HTML),
    "blocks.Document.render (DOCX)": (lambda text: rendered(word.parse_part(part("w", text, RUN))), DOCX),
    "json_text.parse_json": (lambda text: rendered_json(text, f'{{"a": "{text}"}}', f'{{"a": ["{text}"]}}'), JSON),
    "markdown.parse_text": (lambda text: rendered(markdown.parse_text(text, PAIR, SETTINGS)), MARKDOWN),
    "markdown.parse_text (MDX)": (lambda text: rendered(markdown.parse_text(text, PAIR, SETTINGS, is_mdx=True)), MDX),
    "subtitles.parse_subtitles": (lambda text: subtitles.parse_subtitles(cues(text), PAIR), CUES),
    "word.parse_part": (lambda text: word.parse_part(part("w", text, RUN), PAIR[0], languages=PAIR), DOCX),
    "word.parse_part (PPTX)": (
        lambda text: word.parse_part(part("a", text, SLIDE_RUN), languages=PAIR, kind="slide"),
        PPTX,
    ),
    "opendocument.parse_part": (lambda text: opendocument.parse_part(part("text", text), PAIR[0], languages=PAIR), ODF),
    "blocks.Document.render (ODF)": (lambda text: rendered(opendocument.parse_part(part("text", text))), ODF),
    "xliff.parse_xliff": (lambda text: xliff.parse_xliff(xliff_file(text), PAIR), XLIFF),
    "sentences.join_translations": (
        lambda text: sentences.join_translations(text, spots(text), tokens(text)),
        "a |。|a. |”。",
    ),
    "sentences.split_long_sentence": (
        lambda text: [*sentences.split_long_sentence(text, (0, len(text)), lambda start, end: end - start < 100)],
        "a |a; |，|a| ",
    ),
    "sentences.sentence_spans": (lambda text: sentences.sentence_spans(text, "de"), SENTENCES),
    "metrics.text_metrics: BLEU": (lambda text: score("BLEU", text), "a |.|1,|&amp;"),
    "metrics.text_metrics: chrF": (lambda text: score("chrF", text), "a |a"),
    "metrics.warn_about_text": (
        lambda text: metrics.warn_about_text(lines_of(text), lines_of(text), "a text", sources=lines_of(text)),
        "a|\u0301|é",
    ),
    "languages.Directions.detect": (lambda text: _probabilities(text[:MAX_DETECT_CHARS], ("de", "en")), "a|\u0301"),
    "terminal.escape_controls": (escape_controls, "\x1b|\x9b|\u202e"),
    "terminal.display_width": (display_width, "犬|\u0301|a"),
    "codec.SubwordCodec.encode": (
        lambda text: [*map(subwords().encode, lines_of(text))],
        f"{UNREAD}|{TOKENS}|▁|\ue000",
    ),
    "codec.WordCodec.encode": (lambda text: [*map(words().encode, lines_of(text))], f"{UNREAD}|{TOKENS}"),
    "lines.has_letter": (lines.has_letter, "1|.|a"),
    "normalization.Normalizer.normalize": (lambda text: words().normalizer.normalize(text), UNREAD),
    "normalization.surrounding_space": (normalization.surrounding_space, " | a|a ⟨ ⟩ b"),
    "normalization.is_all_caps": (normalization.is_all_caps, "A|A |AB |ß|犬 AB "),
    "normalization.lower": (in_languages(normalization.lower), "Σ|AΣ|I\u0307|İ|Ì|J\u0301"),
    "normalization.nfc": (normalization.nfc, "\u0301\u0327|a\u0301|a⟨\u0301⟩\u0327|각|\u1100\u1161\u11a8|é"),
    "normalization.nfc_stripped": (normalization.nfc_stripped, " |a⟨\u0327\u0301⟩|a \u0301"),
    "normalization.upper": (in_languages(normalization.upper), "ß|i\u0307|ŉ|a\u0301\u0327"),
    "normalization.with_sentinels": (lambda text: normalization.with_sentinels(text, spots(text)), "a."),
    "subwords.SubwordModel.ids": (lambda text: subwords().ids(text), f"{TOKENS}|▁|\ue000"),
    "subwords.SubwordModel.text": (lambda text: subwords().decode(subwords().ids(text)), f"{TOKENS}|▁|\ue000_"),
    "words.Detokenizer.detokenize": (lambda text: words().detokenizer.detokenize(text.split(" ")), "a |a. "),
    "words.Tokenizer.split": (lambda text: words().tokenizer.split(text), TOKENS),
    "translate.join_with_links": (wholly, "A. |a"),
}

AT_ONE_PLACE = names(  # patterns that are tried at the beginning of a text only, or behind all that was read before
    "adapters.interop.foreign._BY_NAME adapters.serve.middleware._HOST "
    "adapters.corpora.po._OTHER_LINE adapters.corpora.po._STRING adapters.corpora.formats._CELL "
    "adapters.corpora.formats._KEY adapters.corpora.formats._SPREADSHEET_ERROR text.file_formats._FORMULA "
    "adapters.corpora.formats._SCRIPT_OR_REGION adapters.corpora.formats._UTF_16 adapters.documents.markup._MARKUP "
    "adapters.documents.branches._BRANCH adapters.terminology.conversions._UNORDERED "
    "adapters.documents.markdown._FIELD adapters.documents.markdown._FRONT_MATTER "
    "adapters.documents.markup.XML_ENCODING adapters.documents.xmltext.XML_ENCODING "
    "adapters.documents.subtitles._DATA adapters.documents.subtitles._SPEAKER_DASH "
    "adapters.documents.subtitles._TIMES text.file_formats._TEXT_FORMATS "
    "text.file_formats._BINARY text.lines.COMPRESSIONS"
)
BEGINNINGS = '<!-- |<?xml |<!DOCTYPE |<!ENTITY a "|PK\x03\x04|https://|www.|mailto:|a@|%(|{{|>>|&#x|<a |<a b="|\\d'


def patterns() -> dict[str, "re.Pattern[Any]"]:
    """Returns name → pattern for those compiled below ROOMS; equal names get numbers."""

    def within(value: object) -> Iterator["re.Pattern[Any]"]:
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, (dict, tuple, list)):
            for each in value.values() if isinstance(value, dict) else value:
                yield from within(each)

    modules = (each.name for each in pkgutil.walk_packages(transformer_cli.__path__, "transformer_cli."))
    return {
        f"{module.partition('.')[2]}.{name}" + (f"[{number}]" if number else ""): pattern
        for module in modules
        if module.startswith(ROOMS)
        for name, value in vars(importlib.import_module(module)).items()
        for number, pattern in enumerate(within(value))
    }


def inputs_of(pattern: "re.Pattern[Any]") -> Iterator[str]:
    """Yields inputs for a pattern: each of its characters, and each pair of them, repeated."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    own = dict.fromkeys(char for char in source if not char.isalnum() and char not in "⟨⟩")
    others = [char for char in own if not char.isascii()]  # of which a class may name hundreds
    signs = [*filter(str.isascii, own), *others[:FEW], " ", "\n", "a", "0"]
    for one, other in product(signs, repeat=2):
        yield f"{one}⟨{other}⟩"
        yield one + other
    yield from (f"{one}⟨{sign}⟩" for one in BEGINNINGS.split("|") for sign in signs)
    yield from BEGINNINGS.split("|")


def of_pattern(name: str, pattern: "re.Pattern[Any]") -> Reader:
    def read(text: str) -> object:
        given: Any = text if isinstance(pattern.pattern, str) else text.encode()
        is_at_one_place = name.partition("[")[0] in AT_ONE_PLACE
        return pattern.match(given) if is_at_one_place else deque(pattern.finditer(given), 0)

    return read


def main() -> int:
    """Measures all readers, or those whose name has the argument in it. Returns 1 if one is not linear."""
    readers = {name: (reader, [*given.split("|"), PROSE]) for name, (reader, given) in READERS.items()}
    readers |= {name: (of_pattern(name, each), [*inputs_of(each)]) for name, each in patterns().items()}
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    measured_readers = {name: each for name, each in readers.items() if wanted in name}
    if not measured_readers:
        print(f"no reader is named {wanted}; their names are {', '.join(readers)}")
        return 2
    n_slow = 0
    gc.disable()  # with many objects its passes look like time that does not grow with the length
    print(f"{'reader':44}{'inputs':>7}{'seconds':>9}{'times':>7}  the slowest input, {LENGTH:,} characters")
    for name, (reader, inputs) in measured_readers.items():
        once = [measured(reader, given) for given in dict.fromkeys(inputs)]
        found = [each if each.is_linear else measured(reader, each.given) for each in once]  # the machine was busy
        worst = max(found, key=lambda each: (not each.is_linear, each.seconds))
        n_slow += not worst.is_linear
        mark = "" if worst.is_linear else "  TOO SLOW"
        times = f"{worst.times:.1f}" if worst.times else ""
        print(f"{name:44}{len(inputs):>7}{worst.seconds:>9.3f}{times:>7}  {worst.given!a}{mark}", flush=True)
    print(f"{len(measured_readers)} of {len(readers)} readers measured; {n_slow} are too slow")
    return min(n_slow, 1)


if __name__ == "__main__":
    raise SystemExit(main())
