"""Marian's Transformer in NumPy, from its own file (transformer.h): post-norm, one sentence, no cache, no batch."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_probs(weights: dict[str, Array], source: list[int], target: list[int], heads: int) -> Array:
    """Returns the log-probability of each id of target; both end with </s>. weights: under Marian's names."""
    embedding = weights["Wemb"].astype(np.float64)
    scale, d = np.sqrt(embedding.shape[1]), embedding.shape[1]
    memory = embedding[source] * scale + _positions(len(source), d)
    layers = 1 + max(int(name.split("_")[1][1:]) for name in weights if name.startswith("encoder_l"))
    for layer in range(1, layers):
        x = f"encoder_l{layer}_"
        memory = _norm(weights, x + "self_Wo", memory + _attend(weights, x + "self_", memory, memory, heads))
        memory = _feed_forward(weights, x, memory)
    read = np.vstack((np.zeros(d), embedding[target[:-1]] * scale)) + _positions(len(target), d)
    for layer in range(1, layers):
        x = f"decoder_l{layer}_"
        read = _norm(weights, x + "self_Wo", read + _attend(weights, x + "self_", read, read, heads, ahead=False))
        read = _norm(weights, x + "context_Wo", read + _attend(weights, x + "context_", read, memory, heads))
        read = _feed_forward(weights, x, read)
    logits = read @ embedding.T + weights["decoder_ff_logit_out_b"]
    chosen = logits[np.arange(len(target)), target]
    return np.asarray(chosen - np.log(np.exp(logits).sum(axis=1)))


def _positions(length: int, d: int) -> Array:
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2 - 1))
    return np.hstack((np.sin(angles), np.cos(angles)))


def _attend(weights: dict[str, Array], name: str, x: Array, memory: Array, heads: int, ahead: bool = True) -> Array:
    q, k, v = (
        (given @ weights[f"{name}W{part}"] + weights[f"{name}b{part}"]).reshape(len(given), heads, -1)
        for given, part in ((x, "q"), (memory, "k"), (memory, "v"))
    )
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[2])
    powers = np.exp(scores) if ahead else np.tril(np.exp(scores))
    found = np.einsum("hqk,khd->qhd", powers / powers.sum(axis=2, keepdims=True), v).reshape(len(x), -1)
    return np.asarray(found @ weights[name + "Wo"] + weights[name + "bo"])


def _feed_forward(weights: dict[str, Array], name: str, x: Array) -> Array:
    inner = x @ weights[name + "ffn_W1"] + weights[name + "ffn_b1"]
    outer = inner / (1 + np.exp(-inner)) @ weights[name + "ffn_W2"] + weights[name + "ffn_b2"]
    return _norm(weights, name + "ffn_ffn", x + outer)


def _norm(weights: dict[str, Array], name: str, x: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-9)
    return np.asarray(centred / spread * weights[name + "_ln_scale"] + weights[name + "_ln_bias"])
