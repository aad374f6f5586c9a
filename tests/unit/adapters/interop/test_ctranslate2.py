"""The engine of exported models against ours, with every variant of the model and every option of the search."""

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch

from oracles.small import VOCABULARY
from oracles.small import make_model as make_untrained
from oracles.variants import VARIANTS
from transformer_cli.adapters.interop import ctranslate2
from transformer_cli.adapters.interop.ctranslate2 import CTranslate2Engine
from transformer_cli.adapters.interop.to_ctranslate2 import EXPORTABLE, count_positions, write_model
from transformer_cli.compute import devices
from transformer_cli.compute.threads import count_threads
from transformer_cli.config.schema import ModelConfig, TranslationSettings
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.errors import CheckpointError, ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.scoring.losses import sentence_losses
from transformer_cli.search import batches as module
from transformer_cli.search.decoder import TransformerEngine
from transformer_cli.search.protocols import Engine, Hypothesis, SearchRequest
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.text.vocabulary import EOS, PAD, SOS, SPECIALS, UNK

NAMES = [*SPECIALS, *(f"w{index}" for index in range(len(SPECIALS), VOCABULARY))]
SHAPES: dict[str, dict[str, Any]] = {
    **{name: variant for name, variant in VARIANTS.items() if variant.get("positions") != "rotary"},  # refused
    "pre-norm without a final norm": {"norm": "pre", "activation": "gelu"},
    "post-norm with a final norm": {"final_norm": True, "tie_embeddings": "all"},
    "stacks of 3 and 1": {"num_encoder_layers": 3, "num_decoder_layers": 1},
}
SENTENCES = [[random.Random(row).randrange(EOS + 1, VOCABULARY) for _ in range(1 + row % 12)] for row in range(60)]

Open = Callable[..., CTranslate2Engine]


def make_model(**options: Any) -> Transformer:
    """A model that gives <pad> and <sos> hardly any probability, as a trained one does."""
    model = make_untrained(**options)
    model.output.bias[[PAD, SOS]] = -30.0
    return model


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """opened(model, quantization="float32"): the model, written and opened."""

    def write_and_open(model: Transformer, quantization: str = "float32", **options: Any) -> CTranslate2Engine:
        folder = Path(mkdtemp(dir=tmp_path))
        write_model(model, folder, source=NAMES, target=NAMES, quantization=quantization)
        positions = count_positions(model.config)
        return CTranslate2Engine(folder, "cpu", positions=positions, source=NAMES, target=NAMES, **options)

    return write_and_open


def translate(
    engine: Engine, settings: TranslationSettings = TranslationSettings(), prefix: Sequence[int] = ()
) -> list[list[Hypothesis]]:
    limits = [max_target_tokens(settings, len(ids), engine.max_length) for ids in SENTENCES]
    wanted = [SearchRequest(ids, limit, prefix=tuple(prefix)) for ids, limit in zip(SENTENCES, limits, strict=True)]
    found = [pair for rows, several in engine.translate(wanted, settings) for pair in zip(rows, several, strict=True)]
    assert sorted(row for row, _ in found) == list(range(len(SENTENCES)))
    return [several for _, several in sorted(found, key=lambda pair: pair[0])]


class Recorder:
    """Wraps CTranslate2's translator and records its calls."""

    def __init__(self, translator: Any, called: list[str]) -> None:
        self._translator, self._called = translator, called

    def __getattr__(self, name: str) -> Any:
        self._called.append(name)
        return getattr(self._translator, name)


def search(**named: Any) -> TranslationSettings:
    return TranslationSettings(**named)


def assert_same(found: list[list[Hypothesis]], ours: list[list[Hypothesis]]) -> None:
    """Compare greedy translations: same tokens and attention, and log-probabilities up to rounding."""
    pairs = [(one, other) for (one,), (other,) in zip(found, ours, strict=True)]
    assert [one.tokens for one, _ in pairs] == [other.tokens for _, other in pairs]
    assert [one.alignment for one, _ in pairs] == [other.alignment for _, other in pairs]
    for key in ("log_prob", "score"):
        assert [getattr(one, key) for one, _ in pairs] == pytest.approx([getattr(o, key) for _, o in pairs], abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_exported_variant_equals_the_run_or_is_refused(shape: str, opened: Open) -> None:
    model = make_model(**SHAPES[shape])
    if any(value not in EXPORTABLE.get(key, [value]) for key, value in SHAPES[shape].items()):
        with pytest.raises(ConfigError, match="cannot be exported"):
            opened(model)
        return
    ours, exported = TransformerEngine([model]), opened(model)
    found = translate(ours)
    assert len({len(each.tokens) for (each,) in found}) > 1
    assert_same(translate(exported), found)
    split = EncodedSplit(Side.of(SENTENCES), Side.of(SENTENCES[::-1]))
    losses = sentence_losses(model, split, torch.arange(len(SENTENCES)).numpy())
    log_probs = exported.log_probs(SENTENCES, SENTENCES[::-1])
    assert [-sum(each) for each in log_probs] == pytest.approx(losses.nll, rel=1e-5)


def test_export_unknown_choice_is_refused(opened: Open) -> None:
    model = make_model()
    model.config = model.config.model_copy(update={"norm": "another"})
    with pytest.raises(ConfigError, match=r"^model\.norm: another cannot be exported, only post or pre; use the run"):
        opened(model)


def test_export_unused_weight_is_refused(opened: Open) -> None:
    model = make_model()
    model.encoder.layers[1].feed_forward.gate = torch.nn.Linear(16, 24)
    said = r"^encoder\.layers\.1\.feed_forward\.gate\.bias: the format has no such weight"
    with pytest.raises(ConfigError, match=said):
        opened(model)


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        *((TranslationSettings(max_tokens=3), []), (TranslationSettings(max_tokens=1), [])),
        *((search(no_repeat_ngram_size=2), []), (search(no_repeat_ngram_size=1), [5, 5])),
        (search(length_penalty=0.6), [7]),
        (search(length_penalty=0.0, max_tokens=4), [7, 5, 9]),
        (TranslationSettings(max_tokens=2), [7, 5]),
    ],
)
def test_exported_greedy_search_equals_ours_with_each_option(
    settings: TranslationSettings, prefix: list[int], opened: Open
) -> None:
    model = make_model()
    assert_same(translate(opened(model), settings, prefix), translate(TransformerEngine([model]), settings, prefix))


@pytest.mark.parametrize(("options", "prefix"), [({}, []), ({}, [7, 5]), ({"no_repeat_ngram_size": 1}, [])])
def test_exported_without_scores_finds_the_same_tokens(
    options: dict[str, Any], prefix: list[int], opened: Open
) -> None:
    engine = opened(make_model(**SHAPES["pre-norm without a final norm"], max_length=64))  # writes no <pad>, no <sos>
    settings = search(**options)
    scored = translate(engine, settings, prefix)
    found = translate(engine, settings.model_copy(update={"return_scores": False}), prefix)
    assert [(one.tokens, one.alignment) for (one,) in found] == [(one.tokens, one.alignment) for (one,) in scored]
    assert [one.log_prob for (one,) in found if not math.isnan(one.log_prob)] == pytest.approx(
        [other.log_prob for (one,), (other,) in zip(found, scored, strict=True) if not math.isnan(one.log_prob)]
    )
    assert any(math.isnan(one.score) for (one,) in found)


@pytest.mark.parametrize("options", [{}, {"no_repeat_ngram_size": 2}])
@pytest.mark.parametrize("prefix", [[], [7, 5]])
def test_exported_beam_has_limits_and_exact_log_probabilities(
    options: dict[str, Any], prefix: list[int], opened: Open
) -> None:
    model, settings = make_model(), search(beam_size=4, n_best=3, **options)
    found, ours = translate(opened(model), settings, prefix), translate(TransformerEngine([model]), settings, prefix)
    rows = [(row, each) for row, several in enumerate(found) for each in several]
    split = EncodedSplit(Side.of([SENTENCES[row] for row, _ in rows]), Side.of([each.tokens for _, each in rows]))
    losses = sentence_losses(model, split, torch.arange(len(rows)).numpy())
    for (row, each), nll in zip(rows, losses.nll, strict=True):
        limit = max_target_tokens(settings, len(SENTENCES[row]), model.config.max_length)
        assert each.tokens[: len(prefix)] == prefix
        assert len(each.tokens) <= limit
        if len(each.tokens) < limit:
            assert each.log_prob == pytest.approx(-nll, abs=1e-4)
            assert each.score == pytest.approx(each.log_prob / (len(each.tokens) + 1))
    scores = [[each.score for each in several] for several in found]
    assert scores == [sorted(each, reverse=True) for each in scores]
    if options and not prefix:  # else the two searches stop at different moments
        assert [best.tokens for best, *_ in found] == [best.tokens for best, *_ in ours]


def test_exported_avoids_forbidden_tokens_and_may_be_empty(opened: Open) -> None:
    model = make_model()
    model.output.bias[[PAD, SOS]] = 50.0
    never = translate(opened(model), search(beam_size=5, n_best=5))
    assert not {PAD, SOS} & {index for several in never for each in several for index in each.tokens}
    model.output.bias[EOS] = 100.0
    assert_same(translate(opened(model)), [[Hypothesis([], [], 0.0, 0.0)]] * len(SENTENCES))


def test_exported_sentence_alone_equals_it_in_a_batch(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened(make_model())
    together = translate(engine)
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", 1)
    assert_same(translate(engine), together)


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}])
def test_exported_without_attention_aligns_only_unknown_words(options: dict[str, Any], opened: Open) -> None:
    model = make_model()
    model.output.bias[UNK] = 1.5
    engine, settings = opened(model), search(**options)
    whole, found = (
        translate(engine, settings),
        translate(engine, settings.model_copy(update={"return_attention": False})),
    )
    assert [one.tokens for (one,) in found] == [one.tokens for (one,) in whole]
    has_unknown = [UNK in one.tokens for (one,) in whole]
    assert 0 < sum(has_unknown) < len(has_unknown)
    expected = [one.alignment if has else [] for (one,), has in zip(whole, has_unknown, strict=True)]
    assert [one.alignment for (one,) in found] == expected


def test_exported_starts_few_batches_and_none_after_closing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", 1)
    engine, begun = opened(make_model()), list[str]()
    monkeypatch.setattr(engine, "_translator", Recorder(engine._translator, begun))

    def check() -> None:
        if len(begun) == 7:
            raise InterruptedError

    batches = engine.translate([SearchRequest(ids, 9) for ids in SENTENCES], TranslationSettings(), before_step=check)
    next(batches)
    assert len(begun) <= 2 * count_threads()
    with pytest.raises(InterruptedError):
        list(batches)
    assert begun == ["translate_batch"] * 7


def test_exported_keeps_the_number_of_torch_threads(opened: Open) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        opened(make_model())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int16", "int8"])
def test_exported_quantized_weights_have_nearly_the_same_losses(quantization: str, opened: Open) -> None:
    model = make_model()
    whole, small = opened(model), opened(model, quantization)
    exact, near = (sum(map(sum, engine.log_probs(SENTENCES, SENTENCES))) for engine in (whole, small))
    assert near == pytest.approx(exact, rel=0.05)
    assert near != exact


@pytest.mark.parametrize(
    ("machine", "has_vnni", "is_exact"), [("x86_64", False, True), ("x86_64", True, False), ("aarch64", False, False)]
)
def test_exported_int8_computes_in_float32_where_sums_overflow(
    monkeypatch: pytest.MonkeyPatch, opened: Open, tmp_path: Path, machine: str, has_vnni: bool, is_exact: bool
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : fpu avx2{' avx512_vnni' if has_vnni else ''} ssse3\n")
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(devices, "CPU_INFO", cpuinfo)
    compute_type = opened(make_model(), "int8").compute_type
    assert (compute_type == "float32") == is_exact
    assert ("int8" in compute_type) != is_exact


def test_exported_refuses_search_settings_that_it_does_not_know(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened(make_model())
    engine.check_supported(search(beam_size=3, length_penalty=0.5))
    known = ctranslate2.SEARCH_SETTINGS - {"length_penalty"}  # as if that had just been added
    monkeypatch.setattr(ctranslate2, "SEARCH_SETTINGS", known)
    engine.check_supported(search(beam_size=3))
    with pytest.raises(ConfigError, match=r"does not know decoding\.length_penalty; leave it out, or name the run "):
        engine.check_supported(search(beam_size=3, length_penalty=0.5))


def test_exported_unsupported_settings_are_refused(opened: Open) -> None:
    engine = opened(make_model())
    with pytest.raises(ConfigError, match=r"cannot sample: .*; set decoding\.sample to false, or name the run"):
        engine.check_supported(search(sample=True))
    with pytest.raises(ConfigError, match=r"an exported model cannot end at an <eos> in the prefix; leave it out, or"):
        engine.check_supported(search(prefix=(5, EOS)))


def test_exported_damaged_weights_are_refused(opened: Open) -> None:
    """Run.open refuses any other damage by the checksums."""
    folder = opened(make_model())._folder
    for damaged in (bytes(99), b"\3\0\0\0\1a" * 99, (folder / "model.bin").read_bytes()[:5000]):
        (folder / "model.bin").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"CTranslate2 \S+ cannot open it: [^\n]*; if that"):
            CTranslate2Engine(folder, "cpu", positions=16, source=NAMES, target=NAMES)


@pytest.mark.parametrize(("limit", "positions"), [(16, 16), (None, 4002), (1_000_000, 4002)])
def test_export_sinusoids_become_a_table_for_the_longest_line(limit: int | None, positions: int) -> None:
    assert count_positions(ModelConfig(positions="sinusoidal", max_length=limit)) == positions
