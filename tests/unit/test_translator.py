"""Translator: what is read and written in which order, and what stands for a word that it does not know."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_cli import translator as module
from transformer_cli.data.codec import WordCodec
from transformer_cli.data.specials import EOS, SOS
from transformer_cli.decoding.decoder import decode
from transformer_cli.decoding.interface import Hypothesis
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.translator import Options, Translation, Translator


@pytest.fixture(scope="module")
def sentences(corpus: Path) -> list[str]:
    """The test set, some of it longer or shorter, and blank lines."""
    lines = (corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    return [*lines[:10], "", *(line.split()[0] for line in lines[10:20]), " ", *(f"Und {line}" for line in lines[20:])]


def by_the_book(translator: Translator, sentence: str) -> tuple[list[str], str, float]:
    """Greedy search without a cache: (tokens, text with unknown ones replaced, log-probability)."""
    run, words = translator.run, translator.run.codecs.source.encode(sentence)
    source = torch.tensor([[SOS, *words.ids, EOS]])
    target, log_prob = [SOS], 0.0
    record = AttentionRecord()
    while target[-1] != EOS and len(target) <= min(2 * len(words) + 10, 14):
        record = AttentionRecord()
        memory = translator.model.encode(source)
        logits = translator.model.output(translator.model.decode(torch.tensor([target]), memory, source, record))[0, -1]
        probabilities = logits.log_softmax(0)
        logits[[1, SOS]] = -math.inf  # <pad> and <sos> are never written
        log_prob += float(probabilities[logits.argmax()])
        target.append(int(logits.argmax()))
    attended = record.cross[-1].weights.mean(dim=1)[0, :, 1:-1].argmax(dim=1)
    ids = [index for index in target[1:] if index != EOS]
    looked_at = [words.tokens[int(at)] for at in attended[: len(ids)]]
    tokens = run.codecs.target.tokens(ids)
    replaced = [word if token == "<unk>" else token for token, word in zip(tokens, looked_at, strict=True)]
    assert isinstance(run.codecs.target, WordCodec)
    return tokens, run.codecs.target.joins.join(replaced), log_prob


def test_a_translation_is_greedy_search_and_the_word_attended_to_most(
    translator: Translator, sentences: Sequence[str]
) -> None:
    n_unknown = 0
    with torch.inference_mode():
        for translation in translator.translations(sentences):
            if translation.source.strip():
                tokens, replaced, log_prob = by_the_book(translator, translation.source)
                assert translation.tokens == tokens
                assert translation.text == replaced
                assert translation.log_prob == pytest.approx(log_prob, abs=1e-4)
                n_unknown += tokens.count("<unk>")
    assert n_unknown > 2


def test_a_sentence_alone_is_translated_as_among_others(
    translator: Translator, sentences: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = translator.translations(sentences)
    alone = [translator.translations([sentence])[0] for sentence in sentences]
    monkeypatch.setattr(module, "BATCH_POSITIONS", 40)
    in_small_batches = translator.translations(sentences)
    for translations in (alone, in_small_batches):
        assert [_words(each) for each in translations] == [_words(each) for each in together]
        assert [each.log_prob for each in translations] == pytest.approx([each.log_prob for each in together], abs=1e-4)


def _words(translation: Translation) -> tuple[str, str, list[str]]:
    return translation.source, translation.text, translation.tokens


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_a_stream_keeps_the_order_and_reads_no_further_than_its_chunk(
    translator: Translator, sentences: list[str], chunk: int
) -> None:
    read: list[str] = []

    def lines() -> Iterator[str]:
        for sentence in sentences:
            read.append(sentence)
            yield sentence

    ahead = []
    texts = []
    for index, translation in enumerate(translator.stream(lines(), chunk=chunk)):
        ahead.append(len(read) - index)
        texts.append(translation.text)
    assert texts == translator.translate(sentences)
    assert max(ahead) == min(chunk, len(sentences))


def test_a_line_too_long_is_counted_from_the_first_of_the_stream(translator: Translator) -> None:
    lines = ["Hund", "Katze", "", "Hund " * 15]
    with pytest.raises(DataError, match=r"^line 4: 15 tokens, but the model takes at most 14 "):
        list(translator.stream(lines, chunk=3))


@pytest.mark.parametrize(
    ("sentence", "max_tokens", "longest"),
    [
        pytest.param("Der alte Hund", 1, 1, id="max_tokens"),
        pytest.param("Der alte Hund", 3, 3, id="max_tokens of more"),
        pytest.param("Der alte Hund", 99, 14, id="the model's positions"),
        pytest.param("Hund", None, 12, id="twice the source and ten"),
        pytest.param("Der alte Hund", None, 14, id="the model's positions before twice the source and ten"),
    ],
)
def test_a_model_that_never_ends_is_stopped(project: Path, sentence: str, max_tokens: int | None, longest: int) -> None:
    translator = Translator.load(project / "runs/tiny", device="cpu")
    with torch.no_grad():
        translator.model.output.bias[EOS] = -1e9
    (translation,) = translator.translations([sentence], settings=SearchSettings(max_tokens=max_tokens))
    assert len(translation.tokens) == longest


def test_a_text_of_words_unknown_to_the_model_is_written_from_the_source(translator: Translator) -> None:
    name = "Der kleine Zorro schläft am Strand."
    assert translator.translate([name]) == ["the small zorro sleeps at the beach."]
    assert translator.translate([name], Options(keep_unk=True)) == ["the small <unk> sleeps at the beach."]


def test_a_translation_keeps_the_tokens_that_were_read(translator: Translator) -> None:
    sentences = ["Der alte Hund.", " ", "Hund " * 15]
    read = [translation.source_tokens for translation in translator.translations(sentences, Options(truncate=True))]
    assert read == [["der", "alte", "hund", "."], [], ["hund"] * 14]


def test_one_str_is_not_taken_for_a_list_of_letters(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"expected a list of sentences, such as \['Hallo'\]"):
        translator.translate("Hallo")


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Gives torch so many; afterwards one again, as in all tests."""
    yield torch.set_num_threads
    torch.set_num_threads(1)


def test_batches_side_by_side_in_threads_give_the_same(
    translator: Translator,
    sentences: Sequence[str],
    set_threads: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_POSITIONS", 40)
    alone = translator.translations(sentences)
    seen = set()

    def watched(*arguments: Any, **settings: Any) -> list[list[Hypothesis]]:
        seen.add((threading.get_ident(), torch.get_num_threads()))
        return decode(*arguments, **settings)

    monkeypatch.setattr(module, "decode", watched)
    set_threads(3)
    together = Translator(translator.run, translator.device).translations(sentences)
    assert torch.get_num_threads() == 3
    assert {threads for _, threads in seen} == {1}
    assert threading.get_ident() not in {thread for thread, _ in seen}
    for one, other in zip(alone, together, strict=True):
        assert (one.source, one.text, one.tokens) == (other.source, other.text, other.tokens)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_an_error_in_a_thread_is_an_error_of_the_whole(
    translator: Translator,
    sentences: Sequence[str],
    set_threads: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> list[list[Hypothesis]]:
        raise DataError("no")

    monkeypatch.setattr(module, "BATCH_POSITIONS", 40)
    monkeypatch.setattr(module, "decode", fail)
    set_threads(2)
    with pytest.raises(DataError, match="no"):
        Translator(translator.run, translator.device, batches_at_a_time=2).translations(sentences)
    assert torch.get_num_threads() == 2
