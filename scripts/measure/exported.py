"""An exported run, text to text, beside CTranslate2 that is fed with ready tokens."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.decoding import GREEDY, ctranslate2_speed, fastest, ready_tokens
from measure.figures import Figure, alternate, say
from transformer_cli.runs.export import export
from transformer_cli.translator import Translator


def ours_and_exported_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 5) -> list[Figure]:
    """Compare our own decoding with CTranslate2, then exported runs."""
    figures = ctranslate2_speed(translator, sentences, rounds=rounds)
    return [*figures, *exported_speed(translator, sentences, rounds=rounds)]


def exported_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 5) -> list[Figure]:
    """Compare exported runs with CTranslate2 on the same files, with its fastest threads and batches, and no text."""
    import ctranslate2

    figures, threads = [], torch.get_num_threads()
    for quantization in ("float32", "int8"):
        with TemporaryDirectory() as temporary:
            exported = export(translator.run.folder, Path(temporary) / "exported", quantization=quantization)
            opened = Translator(exported, "cpu")
            make_engine = partial(ctranslate2.Translator, str(exported.folder))
            ready = fastest(make_engine, ready_tokens(translator, sentences, GREEDY), threads)
            torch.set_num_threads(threads)  # CTranslate2 changes it
            say(f"ctranslate2: exported in {quantization}, CTranslate2 with ready tokens")
            ways = (partial(opened.translate, sentences), ready)
            opened.translate(sentences)
            speeds = (len(sentences) / seconds for seconds in alternate(ways, rounds=rounds))
        figures.append(Figure("ctranslate2", f"exported, {quantization}", "sentences/s", *speeds))
    return figures
