"""How well paragraphs are cut into sentences: by tfm, and by whichever other libraries are installed.

    TFM_MULTI30K_DIR=multi30k python scripts/sentences.py [--missed]

The text is Multi30k's test sets, whose captions that end in a full stop are put together as paragraphs of one to six;
and the 200 sentences of tests/unit/data/sentences.txt, with abbreviations, ordinals, quotes, addresses and the marks of
several scripts. Counts the ends between two sentences that are found, and the ones that are none. --missed prints them.
"""

import argparse
import gzip
import importlib
import os
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from transformer_cli.data.sentences import sentences

OWN = Path(__file__).parents[1] / "tests" / "unit" / "data" / "sentences.txt"
UNSPACED = ("zh", "ja")
Paragraph = tuple[str, list[str]]
"""A language and sentences"""
Cut = Callable[[str, str], Iterable[str]]
"""Text and language → sentences"""


def own() -> Iterator[Paragraph]:
    """The paragraphs of our own sentences."""
    for block in OWN.read_text(encoding="utf-8").split("\n\n"):
        first, *lines = block.strip().split("\n")
        yield first.removeprefix("# "), lines


def captions(folder: Path, seed: int = 1) -> Iterator[Paragraph]:
    """Paragraphs of captions."""
    chance = random.Random(seed)
    for path in sorted(folder.glob("test_*.gz")):
        lines = gzip.decompress(path.read_bytes()).decode().split("\n")
        lines = [line.strip() for line in lines if line.strip().endswith(".")]
        while lines:
            n = chance.randint(1, 6)
            yield path.name.split(".")[-2], lines[:n]
            lines = lines[n:]


def ends(text: str, parts: Iterable[str]) -> set[int]:
    """Returns where the parts of a text end in it, except for the last one."""
    found, place = set(), 0
    for part in filter(None, map(str.strip, parts)):
        if (at := text.find(part, place)) >= 0:
            place = at + len(part)
            found.add(place)
    return found - {len(text)}


def judge(cut: Cut, paragraphs: Iterable[Paragraph]) -> tuple[int, int, list[str]]:
    """Returns how many ends there are, how many are found, and what is missed or none, each as a line."""
    n_ends = n_found = 0
    wrong = []
    for language, lines in paragraphs:
        text = ("" if language in UNSPACED else " ").join(lines)
        right, found = ends(text, lines), ends(text, cut(text, language))
        n_ends, n_found = n_ends + len(right), n_found + len(right & found)
        for name, places in (("missed", right - found), ("false", found - right)):
            wrong += [f"  {name} {language}: {text[max(0, at - 30) : at]} | {text[at : at + 15]}" for at in places]
    return n_ends, n_found, wrong


def candidates() -> Iterator[tuple[str, Cut]]:
    """tfm, and the others that can be imported."""
    yield "tfm", lambda text, language: [text[start:end] for start, end in sentences(text, language)]
    for name, make in OTHERS.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        yield name.split(".")[0], make(module)


def _pysbd(module: Any) -> Cut:
    known = module.languages.LANGUAGE_CODES
    return lambda text, language: module.Segmenter(language if language in known else "en", clean=False).segment(text)


def _spacy(module: Any) -> Cut:
    @cache
    def pipeline(language: str) -> Any:
        found = module.blank("xx" if language == "ja" else language)  # Japanese would need a further package
        found.add_pipe("sentencizer")
        return found

    return lambda text, language: [each.text for each in pipeline(language)(text).sents]


def _syntok(module: Any) -> Cut:
    return lambda text, language: (
        "".join(token.spacing + token.value for token in each) for part in module.analyze(text) for each in part
    )


OTHERS: dict[str, Callable[[Any], Cut]] = {
    "sentencex": lambda module: lambda text, language: module.segment(language, text),
    "spacy": _spacy,
    "pysbd": _pysbd,
    "syntok.segmenter": _syntok,
    "blingfire": lambda module: lambda text, language: module.text_to_sentences(text).split("\n"),
}


def main() -> None:
    """Cut and count."""
    parser = argparse.ArgumentParser(description="Count the ends of sentences that are found.")
    parser.add_argument("--missed", action="store_true", help="print what tfm misses, and its false ends")
    options = parser.parse_args()
    texts = {"own": list(own())}
    if folder := os.environ.get("TFM_MULTI30K_DIR"):
        texts["captions"] = list(captions(Path(folder)))
    for name, cut in candidates():
        for what, paragraphs in texts.items():
            n_ends, n_found, wrong = judge(cut, paragraphs)
            n_false = sum(line.startswith("  false") for line in wrong)
            print(f"{name:10}  {what:8}  found {n_found:,} of {n_ends:,} ({n_found / n_ends:.2%}), false {n_false}")
            if options.missed and name == "tfm":
                print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
