"""The pipeline of a line without a hook, and with hooks of the tests."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import ConfigError
from transformer_cli.pipeline import Draft, LineHook, Requirements, TextPipeline
from transformer_cli.search.protocols import Constraints, Hypothesis
from transformer_cli.text.alignment import Span
from transformer_cli.text.codec import Codecs, EncodedText, SubwordCodec
from transformer_cli.text.subwords import train_subwords
from transformer_cli.translate import Translator

LINE = "Der alte Hund singt im Park."


def with_hook(translator: Translator, hook: LineHook) -> Translator:
    return Translator(translator.runs, translator.engine, translator.checkpoints, hook)


class Tags(LineHook):
    """Protects words such as #tag."""

    def protected_spans(self, text: str) -> Sequence[Span]:
        return [match.span() for match in re.finditer(r"#\w+", text)]


@dataclass(frozen=True)
class Polite:
    """Each translation must begin with "please", and is in capitals."""

    constraints: Constraints | None = None

    def allowed_nats(self, text: str) -> float:
        raise AssertionError("there is no second search")

    def edit(self, draft: Draft, n_prefix_chars: int) -> Draft:
        return replace(draft, text=f"please {draft.text}")

    def finish(self, text: str, sentence: str, protected: Sequence[Span]) -> tuple[str, list[tuple[Span, Span | None]]]:
        return text.upper(), [((0, 3), (0, 6))]


class Asking(LineHook):
    def requirements(self, encoded: EncodedText, codecs: Codecs, *, may_constrain: bool) -> Requirements | None:
        return Polite()


def test_pipeline_inserts_symbols_and_keeps_white_space(translator: Translator) -> None:
    plain, with_symbol = with_hook(translator, LineHook()).translate_detailed([LINE, f"  {LINE[:-1]} 😀."])
    assert with_symbol.text == f"  {plain.text[:-1]} 😀."
    assert plain.terms == plain.placeholders == []


def test_pipeline_without_hook_refuses_its_settings(translator: Translator) -> None:
    plain = with_hook(translator, LineHook())
    for settings in ({"glossary": {"Hund": "hound"}}, {"protect_pattern": "a"}):
        with pytest.raises(ConfigError, match="glossary and protect_pattern need a hook"):
            plain.with_options(**settings)


def test_hook_protected_spans_are_copied(translator: Translator) -> None:
    (found,) = with_hook(translator, Tags()).translate_detailed([f"{LINE[:-1]} #tag."])
    assert found.text == f"{translator.translate([LINE])[0][:-1]} #tag."
    assert [found.text[start:end] for _, (start, end) in found.placeholders] == ["#tag"]


def test_hook_edits_before_and_after_inserting_placeholders(translator: Translator) -> None:
    (found,) = with_hook(translator, Asking()).translate_detailed([f" {LINE[:-1]} 😀."])
    assert found.text == f" PLEASE {translator.translate([LINE])[0][:-1]} 😀.".upper()
    assert found.terms == [((0, 3), (1, 7))]


@pytest.mark.parametrize(("token", "capitals"), [("", "IYI"), (">>tur<<", "İYİ"), ("<2tr>", "İYİ")])
def test_pipeline_writes_capitals_as_the_target_language_does(token: str, capitals: str) -> None:
    symbols = (">>tur<<", "<2tr>")
    model = train_subwords(["the old dog iyi", *symbols] * 9, vocab_size=280, algorithm="bpe", symbols=symbols)
    source, target = SubwordCodec(model).with_default_target(token), SubwordCodec(model, language="en")
    pipeline = TextPipeline(Codecs(source, target), "en", None, takes_constraints=False, settings=TranslationSettings())
    sentence = pipeline.prepare(pipeline.encode_line("THE OLD DOG"), 0)
    found = Hypothesis(target.encode("iyi").ids, [], 0.0, 0.0)
    assert pipeline.decode(sentence, [found]).text == capitals
