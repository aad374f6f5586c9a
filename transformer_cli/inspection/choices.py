"""The decoder's choices: what it wrote at each step, what it could have written, and what follows from another choice.

Knows no pictures and no HTTP.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from transformer_cli.compute.memory import room_for
from transformer_cli.data.fitting import Fitting
from transformer_cli.data.vocabulary import EOS, PAD, SOS, SPECIALS
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import Transformer
from transformer_cli.translator import Options, Translation, Translator

N_CANDIDATES = 10
STEPS = 64  # whose probabilities of all tokens are computed together


@dataclass(frozen=True)
class Candidate:
    """A token that may be written next."""

    id: int
    token: str
    """as the vocabulary has it: `<unk>` for unknown words, `<eos>` for the end"""
    probability: float


@dataclass(frozen=True)
class Candidates:
    """The likeliest tokens at each step. All tensors are on the CPU."""

    ids: Tensor
    """int64 (steps, n), the likeliest first"""
    probabilities: Tensor
    """(steps, n)"""
    of_written: Tensor
    """(steps,): the probability of the token that was written"""


@dataclass(frozen=True)
class Choice:
    """One step of the decoder."""

    written: Candidate
    candidates: list[Candidate]
    """the likeliest first; what was written need not be among them"""


@dataclass(frozen=True)
class Choices:
    """A translation, step by step. There is one step more than tokens if the end was written."""

    translation: Translation
    steps: list[Choice]
    attention: Tensor
    """(steps, source with <sos> and <eos>): what the last layer attended to at each step, the mean of its heads"""


def translate_from(
    translator: Translator,
    sentence: str,
    forced: Sequence[int] = (),
    settings: SearchSettings | None = None,
    *,
    most_tokens: int | None = None,
) -> Translation:
    """Translate a sentence, beginning with forced ids. The translation carries its attention.

    forced: ids of the target, without <sos>; <eos> may only be the last one, and then nothing else is written.
    settings: how to search (None: as the run's config says). most_tokens: of a sentence that may be looked into.
    Raises DataError if the sentence is blank or too long, or if its translation cannot begin so.
    """
    settings = settings or translator.settings
    read = (
        Fitting(translator.run.codecs.source, translator.max_length, "stop", "split the sentence").line(sentence).read
    )
    if most_tokens is not None and len(read) > most_tokens:
        raise DataError(f"{len(read)} tokens, but at most {most_tokens} can be looked into; split the sentence")
    if not read:
        raise DataError("the sentence is blank, so there is nothing to translate; give it a word")
    n_words = len(forced) - (EOS in forced[-1:])
    size, limit = len(translator.run.codecs.target), settings.limit(len(read), translator.max_length)
    if n_words > limit:
        raise DataError(f"{n_words} tokens are forced, but the translation may have {limit}; force fewer")
    for place, index in enumerate(forced):
        if not 0 <= index < size or index in (PAD, SOS) or (index == EOS and place < n_words):
            what = f"id {index}, at place {place + 1} of what is forced, cannot be written there"
            raise DataError(f"{what}; force ids of candidates")
    options = Options(prefix=tuple(forced[:limit]), keep_attention=True)
    (translation,) = translator.translate_encoded([sentence], [read], options, settings)
    return translation


def decoder_choices(translator: Translator, translation: Translation, *, n: int = N_CANDIDATES) -> Choices:
    """Returns each step of a translation with its n likeliest candidates.

    translation: one that carries its attention, such as `translate_from` returns. Raises MemoryShortage.
    """
    assert translation.attention is not None, "translate with Options.keep_attention, and no blank line"
    n_steps = translation.attention.shape[1]
    written = [*translation.ids, EOS][:n_steps]
    found = find_candidates(translator.models, translation.source_ids, written, n=n)
    steps = [
        Choice(
            _candidate(translator, index, of_written),
            [_candidate(translator, *each) for each in zip(ids, probabilities, strict=True)],
        )
        for index, of_written, ids, probabilities in zip(
            written, found.of_written.tolist(), found.ids.tolist(), found.probabilities.tolist(), strict=True
        )
    ]
    return Choices(translation, steps, translation.attention.mean(dim=0))


@torch.inference_mode()
def find_candidates(
    models: Sequence[Transformer], source: Sequence[int], written: Sequence[int], *, n: int
) -> Candidates:
    """Returns the n likeliest tokens at each step of a translation; fewer, if the vocabulary is smaller.

    models: as in `decode`. source: ids without <sos> and <eos>. written: at least one id, and <eos> at the end if it
    was reached; step i reads <sos> and written[:i], and writes written[i]. The probabilities are the models' own,
    before any constraint. <pad> and <sos>, which no search writes, are not among the candidates.
    Raises MemoryShortage.
    """
    device = next(models[0].parameters()).device
    sentence = torch.tensor([[SOS, *source, EOS]], device=device)
    read = torch.tensor([[SOS, *written[:-1]]], device=device)
    found = []
    with room_for(partial(_too_large, len(source), len(written))):
        outputs = [model.decode(read, model.encode(sentence), sentence)[0] for model in models]
        for start in range(0, len(written), STEPS):
            chosen = torch.tensor(written[start : start + STEPS], device=device)
            probabilities = _probabilities(models, [output[start : start + STEPS] for output in outputs])
            of_written = probabilities.gather(1, chosen[:, None])[:, 0]
            probabilities[:, [PAD, SOS]] = -1.0
            values, ids = probabilities.topk(min(n, probabilities.shape[1] - 2), dim=1)
            found.append((ids.cpu(), values.cpu(), of_written.cpu()))
    return Candidates(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _probabilities(models: Sequence[Transformer], outputs: Sequence[Tensor]) -> Tensor:
    """Returns the mean of the models' probabilities: (steps, vocabulary). outputs: (steps, d_model) of each decoder."""
    log_probs = [model.output(output).float().log_softmax(dim=1) for model, output in zip(models, outputs, strict=True)]
    return (torch.stack(log_probs).logsumexp(dim=0) - math.log(len(models))).exp()


def _too_large(n_source: int, n_steps: int) -> str:
    what = f"looking at {n_steps} steps of the translation of a sentence of {n_source} tokens"
    return f"{what} does not fit in memory; split the sentence"


def _candidate(translator: Translator, index: int, probability: float) -> Candidate:
    token = SPECIALS[index] if index < len(SPECIALS) else translator.run.codecs.target.tokens([index])[0]
    return Candidate(index, token, probability)
