"""Inspects a translation: attention weights, token vectors, and the probabilities of each decoding step.

`inspect_translation` records attention and vectors. `decoder_choices` gives the candidates of each step, and
`translate_from` continues from another choice. `attend_over_words` needs only word vectors. Positions count from 0
(<sos>), layers and heads from 1. Does not know pictures or HTTP.
"""

import logging
import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transformer_cli.compute.devices import catch_oom
from transformer_cli.errors import DataError
from transformer_cli.model.attention import AttentionRecord, MultiHeadAttention, RecordedAttention
from transformer_cli.model.layers import FeedForward, Residual
from transformer_cli.model.transformer import Decoder, Embedding, Encoder, Output, Transformer
from transformer_cli.pipeline import Translation
from transformer_cli.search.decoder import mean_log_probs
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.system.arguments import as_list
from transformer_cli.system.terminal import format_table
from transformer_cli.text.vectors import read_vectors
from transformer_cli.text.vocabulary import EOS, SOS, SPECIALS, SUPPRESSED
from transformer_cli.translate import Translator

Kind = Literal["encoder", "decoder", "cross"]
KINDS: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "encoder–decoder attention",
}
Floats = NDArray[np.floating[Any]]

# the boxes of the paper's figure 1
RECORDED_MODULES = (Embedding, MultiHeadAttention, FeedForward, Residual, Encoder, Decoder, Output)
SHADES = ((0.75, "██"), (0.5, "▓▓"), (0.25, "▒▒"), (0.05, "░░"), (0.0, "  "))  # (smallest weight, shade)
TOKENS = ("source_tokens", "source_ids", "target_tokens", "target_ids")
VECTORS = ("without_positions", "before", "after")
N_CANDIDATES = 10  # per step
DECIMALS = 4  # of weights and vectors in a browser; more are not visible
MIN_VARIANCE = 1e-30  # instead of 0 if all vectors are equal
BLANK_SENTENCE = "the sentence has no letter, so there is nothing to inspect; give it a word"

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class AttentionMap:
    """The attention of one head. Its repr is the table of shades that `tfm inspect --text` prints."""

    kind: Kind
    layer: int
    head: int
    target_tokens: list[str]
    """the tokens that attend: the rows"""
    source_tokens: list[str]
    """the tokens that are attended to: the columns"""
    scores: Tensor
    """the scores before softmax, (target, source)"""
    weights: Tensor
    """softmax of the scores, (target, source)"""

    @property
    def title(self) -> str:
        """Such as "encoder self-attention, layer 3"."""
        return f"{KINDS[self.kind]}, layer {self.layer}"

    def __repr__(self) -> str:
        shades = shaded_table(f"head {self.head}", self.target_tokens, self.source_tokens, self.weights)
        return f"{self.title}\n{shades}"


@dataclass(frozen=True)
class Repetition:
    """Two occurrences of a word, and the cosines of their vectors."""

    token: str
    positions: tuple[int, int]
    without_positions: float
    """of the embeddings: 1, since they are the same vector"""
    before: float
    """of the encoder's inputs: embeddings plus position vectors"""
    after: float
    """of the encoder's outputs, which depend on the other words"""


@dataclass(frozen=True, repr=False, kw_only=True)
class Inspection:
    """Attention and vectors of one translation; tensors are on the CPU. Its repr lists the stages and their shapes."""

    sentence: str
    translation: str
    """plain text, as `tfm translate` writes it"""
    source_tokens: list[str]
    """from <sos> to <eos>; words that are not in the vocabulary stand as they are"""
    source_ids: list[int]
    """the ids of the source tokens; 0 for a word that is not in the vocabulary"""
    target_tokens: list[str]
    """what the decoder reads: <sos> and the translation"""
    target_ids: list[int]
    attention: dict[Kind, list[RecordedAttention]]
    """one per layer: source × source (encoder), target × target (decoder), target × source (cross)"""
    without_positions: Tensor
    """the source embeddings as the model scales them (× √d_model by default): (source, d_model)"""
    stages: dict[str, Tensor]
    """the output of each box of the paper's figure 1, (positions, d_model), in the order of computation; the logits,
    `output`, are (target, vocabulary)

    The keys are names of the model's modules, which count layers from 0: `decoder.layers.1.cross_attention`.
    """

    @property
    def before(self) -> Tensor:
        """The encoder's input, embeddings plus position vectors: (source, d_model)."""
        return self.stages["source_embedding"]

    @property
    def after(self) -> Tensor:
        """The encoder's output: (source, d_model)."""
        return self.stages["encoder"]

    def __repr__(self) -> str:
        rows = [(name, " × ".join(map(str, found.shape))) for name, found in self.stages.items()]
        return f"{self.sentence} → {self.translation}\n{format_table([('stage', 'shape'), *rows])}"

    def maps(
        self, kinds: Kind | Iterable[Kind] = tuple(KINDS), *, layer: int | None = None, heads: int | Sequence[int] = ()
    ) -> list[AttentionMap]:
        """Returns a map for each of these kinds and heads (none given: all heads) in one layer (None: the last).

        Raises DataError for a layer or head that does not exist.
        """
        maps = []
        heads = as_list(heads)
        for kind in dict.fromkeys(as_list(kinds)):
            layers = self.attention[kind]
            target_tokens = self.source_tokens if kind == "encoder" else self.target_tokens
            source_tokens = self.target_tokens if kind == "decoder" else self.source_tokens
            chosen = len(layers) if layer is None else layer
            stack = "encoder" if kind == "encoder" else "decoder"
            if not 1 <= chosen <= len(layers):
                raise DataError(f"layer {chosen}: the {stack} has layers 1 to {len(layers)}; choose one of them")
            attention = layers[chosen - 1]
            n_heads = len(attention.weights)
            for head in dict.fromkeys(heads or range(1, n_heads + 1)):
                if not 1 <= head <= n_heads:
                    raise DataError(f"head {head}: a layer has heads 1 to {n_heads}; choose one of them")
                scores, weights = attention.scores[head - 1], attention.weights[head - 1]
                maps.append(AttentionMap(kind, chosen, head, target_tokens, source_tokens, scores, weights))
        return maps

    def as_record(self, maps: Sequence[AttentionMap]) -> dict[str, Any]:
        """Returns the inspection and maps for JSON: tensors as nested lists, None for -inf."""
        return {
            "source": self.sentence,
            **{name: getattr(self, name) for name in ("translation", *TOKENS)},
            "attention": [
                {
                    **{name: getattr(each, name) for name in ("kind", "layer", "head")},
                    "scores": [[None if math.isinf(score) else score for score in row] for row in each.scores.tolist()],
                    "weights": each.weights.tolist(),
                }
                for each in maps
            ],
            "vectors": {name: getattr(self, name).tolist() for name in VECTORS},
            "repetitions": [asdict(each) for each in self.repetitions()],
        }

    def repetitions(self) -> list[Repetition]:
        """Returns each pair of occurrences of a repeated source word, in the sentence's order."""
        tokens = self.source_tokens
        directions = [nn.functional.normalize(getattr(self, name).double(), dim=1) for name in VECTORS]
        cosines = [(each @ each.T).tolist() for each in directions]
        return [
            Repetition(tokens[first], (first, second), *(of_stage[first][second] for of_stage in cosines))
            for first, second in combinations(range(len(tokens)), 2)
            if tokens[first] == tokens[second]
        ]


@dataclass(frozen=True, repr=False)
class WordAttention:
    """Attention among word vectors without a model: the vectors are queries, keys and values. Tensors are float64.

    Its repr is the table of weights.
    """

    words: list[str]
    """the words of the sentence that have a vector"""
    without_vector: list[str]
    """the other words, in the sentence's order"""
    positions: list[int]
    """the indices in `words` of the queries"""
    is_scaled: bool
    """whether scores are divided by √dimension"""
    vectors: Tensor
    """(words, dimension)"""
    scores: Tensor
    """before softmax: (positions, words)"""
    weights: Tensor
    """softmax of the scores: (positions, words)"""
    context: Tensor
    """weights · vectors, the output of attention: (positions, dimension)"""

    @property
    def queries(self) -> list[str]:
        """The words of the rows of scores and weights."""
        return [self.words[position] for position in self.positions]

    def __repr__(self) -> str:
        rows = zip(self.queries, self.weights.tolist(), strict=True)
        return format_table([["", *self.words], *([word, *(f"{weight:.2f}" for weight in row)] for word, row in rows)])


@dataclass(frozen=True)
class TokenProbability:
    """A possible next token."""

    id: int
    token: str
    """as in the vocabulary: `<unk>` for unknown words, `<eos>` for the end"""
    probability: float


@dataclass(frozen=True)
class Choice:
    """One step of the decoder."""

    written: TokenProbability
    candidates: list[TokenProbability]
    """the most probable first; the written token may be missing"""


@torch.inference_mode()
def inspect_translation(translator: Translator, translation: Translation) -> Inspection:
    """Run the model on a sentence and its translation, and record attention and stages.

    Raises DataError if the text is blank, or has several sentences.
    """
    _refuse_several(translation)
    words = translation.source_tokens
    if not words:
        raise DataError(BLANK_SENTENCE)
    model, stages = _with_stage_hooks(translator.model)
    source_tokens = [SPECIALS[SOS], *words, SPECIALS[EOS]]
    source_ids = [SOS, *translation.source_ids, EOS]
    target_ids = [SOS, *translation.ids]
    device = next(model.parameters()).device
    source = torch.tensor([source_ids], device=device)
    record = AttentionRecord()
    model(source, torch.tensor([target_ids], device=device), record)
    embedding = model.source_embedding
    recorded = zip(KINDS, (record.encoder_self, record.decoder_self, record.cross), strict=True)
    return Inspection(
        sentence=translation.source,
        translation=translation.text,
        source_tokens=source_tokens,
        source_ids=source_ids,
        target_tokens=[SPECIALS[SOS], *translation.tokens],
        target_ids=target_ids,
        # [0]: the batch has one sentence
        attention={
            kind: [RecordedAttention(*(part[0].cpu() for part in each)) for each in layers] for kind, layers in recorded
        },
        without_positions=(embedding.tokens(source) * embedding.scale)[0].cpu(),
        stages=stages,
    )


def _refuse_several(translation: Translation) -> None:
    if translation.sentences is not None:
        raise DataError("the text has several lines or sentences; inspect one sentence at a time")


def _with_stage_hooks(model: Transformer) -> tuple[Transformer, dict[str, Tensor]]:
    """Returns a copy of the model, and a dict that receives the stages when the copy runs.

    The copy shares the weights. The model itself gets no hooks, since other threads may be translating with it.
    """
    model = deepcopy(model, {id(each): each for each in (*model.parameters(), *model.buffers())})
    stages: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, RECORDED_MODULES):
            module.register_forward_hook(lambda module, given, found, name=name: stages.update({name: found[0].cpu()}))
    return model, stages


def translate_from(
    translator: Translator, sentence: str, forced: Sequence[int] = (), *, max_tokens: int | None = None
) -> Translation:
    """Translate a sentence so that its translation begins with the forced ids.

    forced: target ids, without <sos>; if <eos> is the last one, nothing follows. max_tokens: the maximum length of the
    sentence. Raises DataError if the sentence is blank or too long, or if there are more forced ids than
    a translation may have.
    """
    line = translator.pipeline.line_encoder("split the sentence").encode(sentence)
    encoded, request = line.encoded, translator.pipeline.prepare(line, 0).request
    if max_tokens is not None and len(encoded) > max_tokens:
        raise DataError(f"{len(encoded)} tokens, but at most {max_tokens} can be inspected; split the sentence")
    if not request:
        raise DataError("the sentence has no letter, so there is nothing to translate; give it a word")
    n_words, limit = len(forced) - (EOS in forced[-1:]), request.max_tokens
    if n_words > limit:
        raise DataError(f"{n_words} tokens are forced, but the translation may have {limit}; force fewer")
    (translation,) = translator.with_options(prefix=tuple(forced[:limit])).translate_encoded([sentence], [encoded])
    return translation


@torch.inference_mode()
def decoder_choices(translator: Translator, translation: Translation) -> tuple[list[Choice], Tensor]:
    """Returns each step of a translation with its N_CANDIDATES most probable candidates, and its attention.

    The steps include <eos> if it was written. Probabilities are the model's own (of an ensemble, the mean), without any
    constraints. Attention is the mean of the last layer's heads, (steps, source), with <sos> and <eos>. translation: of
    one sentence that is not blank. Raises MemoryShortage.
    """
    _refuse_several(translation)
    source_tokens = len(translation.source_ids)
    limit = max_target_tokens(translator.settings, source_tokens, translator.max_length)  # exceeded if terms need more
    written = [*translation.ids, EOS][: max(limit, len(translation.ids))]
    models = translator.engine.models
    device = next(models[0].parameters()).device
    source = torch.tensor([[SOS, *translation.source_ids, EOS]], device=device)
    read = torch.tensor([[SOS, *written[:-1]]], device=device)
    records = [AttentionRecord() for _ in models]
    with catch_oom(lambda: f"{len(written)} steps of a translation do not fit in memory; split the sentence"):
        logits = [model(source, read, record)[0] for model, record in zip(models, records, strict=True)]
        probabilities = mean_log_probs(logits).exp().cpu()
    of_written = probabilities[range(len(written)), written].tolist()
    probabilities[:, SUPPRESSED] = -1.0
    values, ids = probabilities.topk(min(N_CANDIDATES, probabilities.shape[1] - len(SUPPRESSED)), dim=1)

    def candidate(index: int, probability: float) -> TokenProbability:
        token = SPECIALS[index] if index < len(SPECIALS) else translator.run.codecs.target.tokens([index])[0]
        return TokenProbability(index, token, probability)

    steps = [
        Choice(candidate(index, probability), list(map(candidate, *likeliest)))
        for index, probability, *likeliest in zip(written, of_written, ids.tolist(), values.tolist(), strict=True)
    ]
    return steps, torch.stack([record.cross[-1].weights[0].mean(dim=0) for record in records]).mean(dim=0).cpu()


def attend_over_words(sentence: str, where: str, *, is_scaled: bool = True, query: str | None = None) -> WordAttention:
    """Compute softmax(QKᵀ/√d)·V, or softmax(QKᵀ)·V, where the vectors of a sentence's words are Q, K and V.

    Words are separated by white space. A word gets the vector of its spelling, else of its lower-case form, else of any
    spelling that differs only in case. Words without a vector are left out, with a warning.

    where: a file for `read_vectors`. query: return only the rows of this word, ignoring case. Raises DataError if
    there is no word, no word with a vector, or no vector for the query, and what `read_vectors` raises.
    """
    words = sentence.split()
    if not words:
        raise DataError(BLANK_SENTENCE)
    found = read_vectors(Path(where), [*words, *map(str.lower, words)], lowercase=True).by_word
    found = {word.lower(): row for word, row in found.items()} | found
    rows = {word: row for word in words if (row := found.get(word, found.get(word.lower()))) is not None}
    missing = [word for word in words if word not in rows]
    if not rows:
        raise DataError(f"{where}: no vector for any of the words; give words of its language, separated by spaces")
    if missing:
        log.warning("%s: no vector for %s; left out", where, ", ".join(dict.fromkeys(missing)))
    words = [word for word in words if word in rows]
    positions = [at for at, word in enumerate(words) if query is None or word.lower() == query.lower()]
    if not positions:
        raise DataError(f"query {query}: not among the words that have a vector; choose one of {', '.join(words)}")
    vectors = torch.from_numpy(np.stack([rows[word] for word in words])).double()
    queries = vectors[positions]
    scores = queries @ vectors.T / (math.sqrt(vectors.shape[1]) if is_scaled else 1.0)
    weights = scores.softmax(dim=-1)
    return WordAttention(words, missing, positions, is_scaled, vectors, scores, weights, weights @ vectors)


def project_2d(vectors: Floats) -> tuple[Floats, Floats]:
    """Project vectors (n, dimension) on their two principal components: (n, 2).

    Also returns the share of the variance that each component explains: (2,).
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    centred = np.pad(centred, ((0, 0), (0, 2)))  # at least two components
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T, sizes[:2] ** 2 / max((sizes**2).sum(), MIN_VARIANCE)


def steps_record(translator: Translator, translation: Translation) -> dict[str, Any]:
    """Returns the steps of a translation for JSON."""
    config, (choices, weights) = translator.model.config, decoder_choices(translator, translation)
    return {
        "source": translation.source,
        "translation": translation.text,
        "source_tokens": [SPECIALS[SOS], *translation.source_tokens, SPECIALS[EOS]],
        "log_prob": translation.log_prob,
        "alignment": [source + 1 for source in translation.alignment],  # as in source_tokens, after <sos>
        "steps": list(map(asdict, choices)),
        "attention": rounded(weights),
        "layers": {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers},
        "heads": config.num_heads,
        "tokens": translator.run.config.data.tokens,
    }


def attention_record(
    translator: Translator, translation: Translation, kind: Kind, layer: int | None, head: int | None
) -> dict[str, Any]:
    """Returns the weights of a head (None: the mean of all) for JSON. layer: see `Inspection.maps`."""
    maps = inspect_translation(translator, translation).maps(kind, layer=layer, heads=() if head is None else head)
    names = ("kind", "layer", "target_tokens", "source_tokens")
    weights = torch.stack([each.weights for each in maps]).mean(dim=0)
    return {**{name: getattr(maps[0], name) for name in names}, "head": head, "weights": rounded(weights)}


def vectors_record(translator: Translator, translation: Translation) -> dict[str, Any]:
    """Returns the vectors before and after the encoder, projected to two dimensions, for JSON.

    They are scaled to length 1 first, because their lengths differ too much for one picture.
    """
    inspection = inspect_translation(translator, translation)
    record: dict[str, Any] = {"source_tokens": inspection.source_tokens}
    for name, vectors in (("before", inspection.before), ("after", inspection.after)):
        places, explained = project_2d(nn.functional.normalize(vectors.double(), dim=1).numpy())
        record[name] = {"places": rounded(torch.from_numpy(places)), "explained": explained.tolist()}
    return record | {"repetitions": list(map(asdict, inspection.repetitions()))}


def rounded(numbers: Tensor) -> list[list[float]]:
    """Returns a matrix as nested lists, with DECIMALS decimal places."""
    return torch.round(numbers.double(), decimals=DECIMALS).tolist()


def shaded_table(corner: str, targets: Sequence[str], sources: Sequence[str], weights: Tensor) -> str:
    """Returns a table with a shade for each weight, (target, source). corner: its top left cell."""
    shades = ([next(shade for least, shade in SHADES if each >= least) for each in row] for row in weights.tolist())
    return format_table([[corner, *sources], *([target, *row] for target, row in zip(targets, shades, strict=True))])
