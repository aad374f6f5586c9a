"""Translator: what is read and written in which order, and what stands for a word that it does not know."""

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oracles.small import make_model
from sealed import set_config
from transformer_cli import Translation, Translator, inspect_sentence
from transformer_cli import translate as module
from transformer_cli.compute import devices
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.search import decoder
from transformer_cli.search.decoder import TransformerEngine, decode
from transformer_cli.search.protocols import Hypothesis
from transformer_cli.text.line_encoder import LineEncoder
from transformer_cli.text.vocabulary import EOS


@pytest.fixture(scope="module")
def sentences(corpus: Path) -> list[str]:
    """The test set, some of it longer or shorter, and blank lines."""
    lines = (corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    return [*lines[:10], "", *(line.split()[0] for line in lines[10:20]), " ", *(f"Und {line}" for line in lines[20:])]


def assert_same(some: Sequence[Translation], others: Sequence[Translation]) -> None:
    for one, other in zip(some, others, strict=True):
        assert (one.source, one.text, one.tokens) == (other.source, other.text, other.tokens)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


@pytest.mark.parametrize(("chunk", "tokens", "furthest"), [(1, None, 1), (3, None, 3), (99, None, 32), (99, 20, 14)])
def test_stream_keeps_order_and_reads_one_chunk_at_a_time(
    translator: Translator, sentences: list[str], chunk: int, tokens: int | None, furthest: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_TOKENS", tokens or module.MAX_PENDING_TOKENS)
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
    assert max(ahead) == furthest


def test_encode_4000_tokens_if_the_model_has_no_maximum(by_subwords: Translator) -> None:
    codec = by_subwords.run.codecs.source
    assert len(LineEncoder(codec, None, "stop").encode("𐍈" * 900).encoded) > 3_600
    with pytest.raises(DataError, match=r"^4\d{3} tokens, but the model takes at most 4000; split the sentence"):
        LineEncoder(codec, None, "stop").encode("𐍈" * 1100)
    assert len(LineEncoder(codec, None, "truncate").encode("𐍈" * 1100).encoded) == 4_000


@pytest.mark.parametrize(
    ("sentence", "max_tokens", "longest"),
    [
        ("Der alte Hund", 1, 1),  # max_tokens
        ("Der alte Hund", 99, 14),  # the model's positions
        ("Hund", None, 12),  # twice the source and ten
        ("Der alte Hund", None, 14),  # the model's positions, before twice the source and ten
    ],
)
def test_translate_model_without_eos_stops_at_max_tokens(
    project: Path, sentence: str, max_tokens: int | None, longest: int
) -> None:
    translator = Translator(project / "runs/tiny", device="cpu")
    with torch.no_grad():
        translator.model.output.bias[EOS] = -1e9
    (translation,) = translator.with_options(max_tokens=max_tokens).translate_detailed([sentence])
    assert len(translation.tokens) == longest


@pytest.mark.parametrize(("n_sentences", "batches"), [(1, [1]), (4, [2, 2]), (7, [2, 2, 3])])
def test_translate_in_threads_gives_the_same_or_raises(
    translator: Translator,
    sentences: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    n_sentences: int,
    batches: list[int],
) -> None:
    chosen, seen = sentences[:n_sentences], list[tuple[int, int, bool]]()
    alone = translator.translate_detailed(chosen)

    def watched(models: Any, batch: Sequence[Any], *arguments: Any, **named: Any) -> list[list[Hypothesis]]:
        seen.append((len(batch), torch.get_num_threads(), threading.current_thread() is threading.main_thread()))
        if n_failed:
            raise DataError("no")
        return decode(models, batch, *arguments, **named)

    monkeypatch.setattr(decoder, "decode", watched)
    monkeypatch.setattr(decoder, "MIN_SENTENCES_PER_THREAD", 2)
    torch.set_num_threads(3)
    try:
        n_failed = 0
        assert_same(translator.translate_detailed(chosen), alone)
        assert sorted(seen) == [(n, 1, False) for n in batches]
        n_failed = 1
        with pytest.raises(DataError, match="no"):
            translator.translate_detailed(chosen)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)  # as in all tests


BEAM = {"n_best": 3, "beam_size": 4}
SAMPLES = {"n_best": 3, "sample": True, "temperature": 3.0}


def test_translate_without_scores_gives_the_same_text(translator: Translator, sentences: Sequence[str]) -> None:
    both = (translator.with_options(return_scores=scores) for scores in (True, False))
    scored, found = (each.translate_detailed(sentences) for each in both)
    assert [(one.text, one.alignment) for one in found] == [(one.text, one.alignment) for one in scored]
    assert all(np.isnan(one.score) for one in found if one.tokens)
    assert not any(np.isnan(one.score) for one in scored)


@pytest.mark.parametrize("settings", [BEAM, SAMPLES], ids=["beam", "samples"])
def test_translate_n_best_has_alternatives(
    translator: Translator, sentences: Sequence[str], settings: dict[str, Any]
) -> None:
    for each in translator.with_options(**settings).translate_detailed(sentences):
        scores = [each.score, *(other.score for other in each.alternatives)]
        assert scores == sorted(scores, reverse=True)
        assert len(each.alternatives) == (2 if each.source.strip() else 0)
        for other in each.alternatives:
            assert (other.source, other.source_tokens, other.alternatives) == (each.source, each.source_tokens, [])
            assert other.tokens == translator.run.codecs.target.tokens(other.ids)


@pytest.mark.parametrize(
    ("prefix", "settings"),
    [("The young", {}), ("The yo", BEAM), ("Größe 犬 ▁x", SAMPLES), ("a  b\tc", BEAM)],
    ids=["greedy", "beam", "samples", "blanks"],
)
def test_translate_by_subwords_begins_with_any_prefix(
    by_subwords: Translator, prefix: str, settings: dict[str, Any]
) -> None:
    beginning = by_subwords.with_options(prefix=prefix, **settings)
    line, blank = beginning.translate_detailed(["Der alte Hund singt im Park.", " "])
    assert all(each.text.startswith(prefix) and "\n" not in each.text for each in (line, *line.alternatives))
    assert (blank.text, blank.alternatives) == ("", [])


@pytest.mark.parametrize(
    ("prefix", "max_tokens", "line", "message"),
    [
        ("(" * 4001, None, "Hund", "^prefix has more than 4,000 characters; shorten it$"),
        ("The quokka", None, "Hund", "^prefix: 'quokka' is not in the model's vocabulary"),
        ("dog " * 15, None, "Der alte Hund.", "^line 8: prefix has 15 tokens, but the translation may have 14; "),
        ("dog " * 13, None, "Hund", "^line 8: prefix has 13 tokens, but the translation may have 12; "),
        ("dog " * 4, 3, "Hund", "^line 8: prefix has 4 tokens, but the translation may have 3; "),
    ],
    ids=["endless", "unknown", "model", "source", "asked"],
)
def test_stream_unwritable_prefix_raises_data_error(
    translator: Translator, prefix: str, max_tokens: int | None, line: str, message: str
) -> None:
    beginning = translator.with_options(prefix=prefix, max_tokens=max_tokens)
    with pytest.raises(DataError, match=message):
        list(beginning.stream([" ", line], first_line=7, chunk=2))


def test_translator_load_other_codecs_raises_config_error(tiny: Run, tmp_path: Path) -> None:
    unlike = Path(shutil.copytree(tiny.folder, tmp_path / "unlike"))
    set_config(unlike, load_config(unlike / "config.yaml", ["data.lowercase=false"]))
    with pytest.raises(ConfigError, match=r"because their codecs differ \(data\.lowercase: true and false\); name"):
        Translator(tiny.folder, "cpu", others=unlike)


def test_with_options_takes_numpy_numbers_and_accumulates(translator: Translator) -> None:
    numbers: dict[str, Any] = {"beam_size": np.int64(3), "n_best": np.int32(2)}
    named = translator.with_options(**numbers).with_options("decoding.length_penalty=0.5")
    wanted = TranslationSettings(beam_size=3, n_best=2, length_penalty=0.5)
    assert (named.settings, translator.settings) == (wanted, TranslationSettings())


def test_repr_of_public_classes_is_short(tiny: Run, translator: Translator) -> None:
    inspection = inspect_sentence(translator, "Der alte Hund singt im Park.")
    for shown in (tiny, tiny.codecs, inspection):
        assert len(repr(shown)) < 1_000, repr(shown)[:2_000]
    assert str(tiny.folder) in repr(tiny)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"on_too_long": "bogus"}, r"^on_too_long='bogus': must be stop, blank, copy or truncate, not bogus$"),
        ({"n_best": "many"}, r"^n_best='many': must be a whole number, not many$"),
        ({"n_best": 2}, r"^n_best=2: beam_size is only 1; raise it to 2"),
        ({"max_tokens": 2.5}, r"^max_tokens=2.5: must be a whole number, not 2\.5$"),
        ({"prefix": None}, r"^prefix=None: must be text or token ids, not None$"),
        ({"keep_unk": "yes"}, r"^keep_unk='yes': must be true or false, not 'yes'$"),
        ({"temperature": "warm"}, r"^temperature='warm': decoding\.temperature: must be a number, not warm"),
        ({"beam": 5}, r"decoding\.beam.*unknown key"),
    ],
)
def test_with_options_wrong_values_raise_config_error(tiny: Run, named: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Translator(tiny, "cpu").with_options(**named)


PARAGRAPH = "  Der alte Hund singt im Park.  Die junge Katze schläft zu Hause. \t"


def test_split_sentences_translates_them_one_by_one(translator: Translator) -> None:
    split = translator.with_options(split_sentences=True)
    dog, cat = translator.translate_detailed(["Der alte Hund singt im Park.", "Die junge Katze schläft zu Hause."])
    found, blank, one = split.translate_detailed([PARAGRAPH, " ", cat.source])
    assert found.text == f"  {dog.text}  {cat.text} \t"
    assert (blank.text, blank.sentences) == (" ", [])
    assert one.text == cat.text
    assert (found.tokens, found.source_tokens) == (dog.tokens + cat.tokens, dog.source_tokens + cat.source_tokens)
    assert found.ids == dog.ids + cat.ids
    shifted = [len(dog.source_tokens) + place for place in cat.alignment]
    assert found.alignment == dog.alignment + shifted
    assert found.log_prob == pytest.approx(dog.log_prob + cat.log_prob, abs=1e-4)
    assert found.sentences is not None
    assert [PARAGRAPH[each.start :].startswith(each.source) for each in found.sentences] == [True, True]
    assert [(each.source, each.text) for each in found.sentences] == [(each.source, each.text) for each in (dog, cat)]
    assert translator.translate_detailed([dog.source])[0].sentences is None


def test_text_of_several_lines_is_translated_line_by_line(translator: Translator) -> None:
    lines = ["Der alte Hund singt im Park.", "", "  Die junge Katze schläft zu Hause. "]
    dog, blank, cat = translator.translate(lines)
    (found,) = translator.translate_detailed(["\n".join(lines)])
    assert found.text == "\n".join([dog, blank, cat])
    assert [(each.source, each.start, each.text) for each in found.sentences or ()] == [
        (lines[0], 0, dog),
        ("", 29, ""),
        (lines[2], 30, cat),
    ]
    long = f"{lines[0]}\n{'Hund ' * 1000}\n{lines[0]}"
    assert translator.with_options(on_too_long="blank").translate([long]) == [f"{dog}\n\n{dog}"]
    (cut,) = translator.with_options(on_too_long="truncate").translate_detailed([long])
    assert cut.was_too_long
    assert [len(each) for each in cut.text.split("\n")][::2] == [len(dog)] * 2
    assert translator.translate([f"{lines[0]}\r\n{lines[0]}\r\n"]) == [f"{dog}\r\n{dog}\r\n"]
    with pytest.raises(DataError, match="n_best takes single sentences, but the text has several lines"):
        translator.with_options(beam_size=2, n_best=2).translate_detailed(["\n".join(lines)])
    split = translator.with_options(split_sentences=True)
    assert split.translate([f"{lines[0]} {lines[0]}\n{lines[0]}"]) == [f"{dog} {dog}\n{dog}"]


def test_sample_is_keyed_by_line_and_sentence(translator: Translator) -> None:
    sampling = translator.with_options(sample=True, temperature=3.0, return_scores=False)
    split = sampling.with_options(split_sentences=True)
    twice = "Der Hund singt. Der Hund singt."
    first, second = split.translate_detailed(["Die Katze.", twice])
    assert [first.text] == sampling.translate(["Die Katze."])
    assert next(split.stream([twice], first_line=2, chunk=2)).text == second.text
    assert second.sentences is not None
    one, other = second.sentences
    assert one.text == next(sampling.stream(["Der Hund singt."], first_line=2, chunk=2)).text != other.text


def test_split_sentences_splits_a_long_sentence(translator: Translator) -> None:
    split = translator.with_options(split_sentences=True)
    line = "Der Hund singt. Der Hund, der Hund, der Hund und der Hund, der Hund schläft im Park."
    (found,) = split.translate_detailed([line])
    assert found.sentences is not None
    assert [each.source for each in found.sentences] == [
        "Der Hund singt.", "Der Hund, der Hund, der Hund und der Hund,", "der Hund schläft im Park.",
    ]  # fmt: skip
    assert not found.was_too_long
    line = "Hund singt. " + "Hund" * 3990
    with pytest.raises(DataError, match="line 1: more than 4,000 characters"):
        split.translate([line])
    assert split.with_options(on_too_long="blank").translate([line]) == [""]


def test_split_sentences_with_n_best_or_prefix_raises(translator: Translator) -> None:
    for options in ({"n_best": 2, "beam_size": 2}, {"prefix": "the"}):
        with pytest.raises(ConfigError, match="split_sentences cannot be combined with n_best or prefix"):
            translator.with_options(split_sentences=True, **options).translate(["Hund"])


def test_precision_auto_is_bfloat16_only_where_it_is_fast(
    translator: Translator, sentences: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = translator.translate_detailed(sentences)
    auto, rounded = (translator.with_options(precision=precision) for precision in ("auto", "bfloat16"))
    monkeypatch.setattr(devices, "bfloat16_unit", lambda device: "")
    assert auto.translate_detailed(sentences) == exact
    near = rounded.translate_detailed(sentences)
    assert near != exact
    log_probs = [[each.log_prob for each in found] for found in (near, exact)]
    assert log_probs[0] == pytest.approx(log_probs[1], rel=0.1)
    assert sum(one.text == other.text for one, other in zip(near, exact, strict=True)) > 0.8 * len(exact)
    monkeypatch.setattr(devices, "bfloat16_unit", lambda device: "AVX512-BF16")
    assert auto.translate_detailed(sentences) == near
    monkeypatch.setattr(devices, "bfloat16_unit", lambda device: "AMX")  # there, it does not pay in a search
    assert auto.translate_detailed(sentences) == exact
    assert translator.translate_detailed(sentences) == exact


def test_engine_bfloat16_rounds_the_output_but_not_the_tied_embedding() -> None:
    model = make_model(tie_embeddings="all")
    (rounded,) = TransformerEngine([model])._bfloat16_models
    assert torch.equal(rounded.target_embedding.tokens.weight, model.target_embedding.tokens.weight)
    assert rounded.source_embedding.tokens.weight is rounded.target_embedding.tokens.weight
    assert torch.equal(rounded.output.weight, model.output.weight.bfloat16())
