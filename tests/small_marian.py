"""A small random model as Marian writes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

D, HEADS, FF, LAYERS, VOCABULARY = 16, 2, 24, 2, 31
TEXT = ["the old dog sees a tree", "a man in the park sings", "dogs and men see trees", "the parks are old"]
SETTINGS = f"""type: transformer
dim-emb: {D}
enc-depth: {LAYERS}
dec-depth: {LAYERS}
transformer-heads: {HEADS}
transformer-dim-ffn: {FF}
transformer-ffn-activation: swish
transformer-decoder-autoreg: self-attention
transformer-preprocess: ""
transformer-postprocess: dan
"""


def learn(lines: Sequence[str], path: Path, size: int) -> sentencepiece.SentencePieceProcessor:
    """Learn a SentencePiece model as Marian does."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=size,
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            minloglevel=2,
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def weights() -> dict[str, Any]:
    """Random weights under Marian's names."""
    chance = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return chance.normal(0, 0.3, shape).astype(np.float32)

    found = {"Wemb": matrix(VOCABULARY, D), "decoder_ff_logit_out_b": matrix(1, VOCABULARY)}
    for stack, blocks in (("encoder", ["self"]), ("decoder", ["self", "context"])):
        for layer in range(1, LAYERS + 1):
            name = f"{stack}_l{layer}_"
            for block in blocks:
                found |= {f"{name}{block}_W{part}": matrix(D, D) for part in "qkvo"}
                found |= {f"{name}{block}_b{part}": matrix(1, D) for part in "qkvo"}
            for norm in [*(f"{block}_Wo" for block in blocks), "ffn_ffn"]:
                found |= {f"{name}{norm}_ln_scale": 1 + matrix(1, D), f"{name}{norm}_ln_bias": matrix(1, D)}
            found |= {f"{name}ffn_W1": matrix(D, FF), f"{name}ffn_b1": matrix(1, FF)}
            found |= {f"{name}ffn_W2": matrix(FF, D), f"{name}ffn_b2": matrix(1, D)}
    return found


def write(folder: Path, arrays: dict[str, Any], settings: str = SETTINGS) -> None:
    text = settings.encode()
    inside = np.frombuffer(text + b"\0" * (-len(text) % 256), dtype=np.int8)
    everything: dict[str, Any] = {**arrays, "special:model.yml": inside}
    np.savez(folder / "model.npz", **everything)


def make_model(place: Path) -> Path:
    """Write a model with one vocabulary for both languages, whose </s> has id 0 and <unk> id 1. Returns its folder."""
    place.mkdir()
    write(place, weights())
    learn(TEXT, place / "vocab.spm", VOCABULARY)
    return place
