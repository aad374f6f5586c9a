"""Decoding from text to text: greedy and plain, beam and greedy, both and CTranslate2 with the same weights."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from measure.figures import Figure, Unavailable, alternate, say
from oracles.plain import PlainTransformer, is_plain, plain_greedy
from transformer_cli import Translator
from transformer_cli.adapters.interop.to_ctranslate2 import write_model
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.runs.finding import find_run
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.text.vocabulary import EOS, SOS

SENTENCES = 1000
SAMPLE_EVERY = 12  # plain decoding is slow: it gets every 12th sentence by length
GREEDY = TranslationSettings()
BEAM = TranslationSettings(beam_size=4, length_penalty=1.0)
BUSY = [sys.executable, "-c", "while True: pass"]
FEW = (1, 4, 16)  # numbers of sentences translated beside another program
BATCH_TOKENS = (1024, 2048, 4096, 8192)  # the fastest for CTranslate2 is used

Way = Callable[[Any, int], list[list[str]]]
"""CTranslate2's translator, and how many tokens make a batch → the tokens of each translation"""


def open_run(run: str | None, data_dir: Path) -> tuple[Translator, list[str]]:
    """Opens a trained run (None: the newest) and up to a thousand sentences of its first test set.

    Raises Unavailable for a model without the shape of configs/multi30k.yaml, and TfmError as `tfm evaluate` does.
    """
    translator = Translator(find_run(run), device="cpu")
    folder, config = translator.run.folder, translator.run.config
    if not is_plain(config.model):
        raise Unavailable(f"{folder}: not the model of configs/multi30k.yaml; name such a run with --run")
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    lines = dataset.text(dataset.test_splits[0], "source") if dataset.test_splits else []
    sentences = [line for line in lines if line.strip()][:SENTENCES]
    if len(sentences) < SAMPLE_EVERY:
        raise Unavailable(f"{dataset.folder}: no test set with enough sentences; name a run of Multi30k with --run")
    return translator, sentences


def greedy_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 3) -> list[Figure]:
    """Compares with plain decoding, which gets only a sample of all lengths; its seconds are scaled up."""
    run, plain = translator.run, PlainTransformer(translator.model)
    sample = sorted(sentences, key=len)[SAMPLE_EVERY // 2 :: SAMPLE_EVERY]

    def one_by_one() -> list[list[str]]:
        found = []
        for sentence in sample:
            source = run.codecs.source.encode(sentence)
            limit = max_target_tokens(TranslationSettings(), len(source), run.config.model.max_length)
            ids = plain_greedy(plain, [SOS, *source.ids, EOS], sos=SOS, eos=EOS, max_tokens=limit)
            run.codecs.target.decode(ids)
            found.append(run.codecs.target.tokens(ids))
        return found

    say(f"greedy: {len(sentences)} sentences by ours, {len(sample)} the plain way")
    ours, theirs = translator.translate_detailed(sentences), one_by_one()
    seconds, plain_seconds = alternate((lambda: translator.translate_detailed(sentences), one_by_one), rounds=rounds)
    tokens_of = {each.source: each.tokens for each in ours}
    alike = _share_alike([tokens_of[sentence] for sentence in sample], theirs)
    figures = _speeds("greedy", "", ([each.tokens for each in ours], theirs), (seconds, plain_seconds))
    return [*figures, Figure("greedy", "the same translations as the reference", "%", alike)]


def beam_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 5) -> list[Figure]:
    """Compares beam search with our greedy search and, if it is installed, with CTranslate2's beam search."""
    say("beam: beam search, greedy search")
    ways = [partial(translator.with_options(**dict(each)).translate_detailed, sentences) for each in (BEAM, GREEDY)]
    ways[0]()
    seconds = (1000 / len(sentences) * taken for taken in alternate(ways, rounds=rounds))
    figures = [Figure("beam", "1,000 sentences, beside greedy", "s", *seconds)]
    try:
        return figures + ctranslate2_speed(translator, sentences, BEAM, rounds=rounds)
    except Unavailable as error:
        say(f"beam: not compared with CTranslate2: {error}")
        return figures


def busy_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 5) -> list[Figure]:
    """Compares greedy search of a few sentences on all threads and on one, alone and beside a busy program."""
    threads, found = torch.get_num_threads(), []

    def translate(count: int, threads: int) -> None:
        torch.set_num_threads(threads)
        for start in range(0, 2 * max(FEW), count):
            translator.translate_detailed(sentences[start : start + count])

    for count in FEW:
        for state, programs in (("alone", []), ("beside one program", [BUSY])):
            say(f"busy: {count} at a time, {state}, on {threads} threads and on one")
            with ExitStack() as running:
                for program in programs:  # ended by the block, and then waited for
                    running.callback(running.enter_context(subprocess.Popen(program)).kill)
                seconds = alternate([partial(translate, count, each) for each in (threads, 1)], rounds=rounds)
            ms = (1000 * taken * count / (2 * max(FEW)) for taken in seconds)
            found.append(Figure("busy", f"sentences at a time: {count}, {state}", "ms", *ms))
    torch.set_num_threads(threads)
    return found


def ctranslate2_speed(
    translator: Translator, sentences: Sequence[str], settings: TranslationSettings = GREEDY, *, rounds: int = 5
) -> list[Figure]:
    """Compares with CTranslate2 in float32 and int8 on the same number of threads, by tokens/s.

    settings: greedy search, or a beam and its length penalty, which both programs get.
    """
    try:
        import ctranslate2
    except ImportError:
        raise Unavailable("not installed: pip install ctranslate2") from None
    section = "ctranslate2" if settings is GREEDY else "beam"
    types, threads = ("float32", "int8"), torch.get_num_threads()
    with TemporaryDirectory() as folder:
        source, target = translator.run.codecs.source.all_tokens(), translator.run.codecs.target.all_tokens()
        write_model(translator.model, Path(folder), source=source, target=target)
        engines = [partial(ctranslate2.Translator, folder, compute_type=each) for each in types]
        translate = text_to_text(translator, sentences, settings)
        ways = [fastest(make_engine, translate, threads) for make_engine in engines]

        searching = translator.with_options(**dict(settings))

        def our_way() -> list[list[str]]:
            torch.set_num_threads(threads)  # CTranslate2 changes OpenMP's number, which both use
            return [each.tokens for each in searching.translate_detailed(sentences)]

        ours, *theirs = (way() for way in (our_way, *ways))
        say(f"{section}: ours, CTranslate2 in float32, in int8")
        seconds, *their_seconds = alternate((our_way, *ways), rounds=rounds)
    figures = []
    for name, tokens, taken in zip(types, theirs, their_seconds, strict=True):
        figures += _speeds(section, f", {name}", (ours, tokens), (seconds, taken))
        figures.append(Figure(section, f"the same translations, {name}", "%", _share_alike(ours, tokens)))
    return figures


def text_to_text(translator: Translator, sentences: Sequence[str], settings: TranslationSettings) -> Way:
    """Returns a function that translates with CTranslate2, with our tokenising and detokenising."""
    codecs, source_names = translator.run.codecs, translator.run.codecs.source.all_tokens()
    ids = {token: index for index, token in enumerate(codecs.target.all_tokens())}
    options = {
        "beam_size": settings.beam_size,
        "length_penalty": settings.length_penalty,
        "batch_type": "tokens",
        "max_decoding_length": max_target_tokens(TranslationSettings(max_tokens=10_000), 0, translator.max_length),
    }

    def translate(engine: Any, size: int) -> list[list[str]]:
        words = [[source_names[index] for index in codecs.source.encode(sentence).ids] for sentence in sentences]
        found = engine.translate_batch(words, max_batch_size=size, **options)
        tokens = [each.hypotheses[0] for each in found]
        for each in tokens:
            codecs.target.decode([ids[token] for token in each])
        return tokens

    return translate


def fastest(make_engine: Callable[..., Any], translate: Way, threads: int) -> Callable[[], list[list[str]]]:
    """Returns a function that translates to tokens with CTranslate2's fastest threads and batches."""
    found: list[tuple[float, Callable[[], list[list[str]]]]] = []
    for all_on_one_batch in (True, False):
        share = {"intra_threads": threads} if all_on_one_batch else {"intra_threads": 1, "inter_threads": threads}
        engine = make_engine(**share)
        ways = [partial(translate, engine, size) for size in BATCH_TOKENS]
        ways[0]()
        say(f"ctranslate2, {share}: batches of {', '.join(map(str, BATCH_TOKENS))} tokens")
        found += zip(alternate(ways, rounds=2), ways, strict=True)
    return min(found, key=lambda pair: pair[0])[1]  # the other engine ends here, with its threads


def _speeds(section: str, name: str, tokens: Sequence[list[list[str]]], seconds: Sequence[float]) -> list[Figure]:
    """Returns figures of the speed of two ways to translate."""
    speeds = (sum(map(len, found)) / taken for found, taken in zip(tokens, seconds, strict=True))
    per_thousand = (1000 / len(found) * taken for found, taken in zip(tokens, seconds, strict=True))
    return [
        Figure(section, f"text to text{name}", "target tokens/s", *speeds),
        Figure(section, f"1,000 sentences{name}", "s", *per_thousand),
    ]


def _share_alike(ours: Sequence[object], theirs: Sequence[object]) -> float:
    return 100 * sum(one == other for one, other in zip(ours, theirs, strict=True)) / len(ours)
