"""The decoder's choices: what it wrote at each step, what it could have written, and what follows from another choice.

Knows no pictures and no HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_cli.compute.memory import room_for
from transformer_cli.decoding.decoder import mean_log_probs
from transformer_cli.errors import DataError
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.text.vocabulary import EOS, SOS, SPECIALS, UNWRITTEN
from transformer_cli.translator import Translation, Translator

N_CANDIDATES = 10


@dataclass(frozen=True)
class Candidate:
    """A token that may be written next."""

    id: int
    token: str
    """as the vocabulary has it: `<unk>` for unknown words, `<eos>` for the end"""
    probability: float


@dataclass(frozen=True)
class Choice:
    """One step of the decoder."""

    written: Candidate
    candidates: list[Candidate]
    """the likeliest first; what was written need not be among them"""


def translate_from(
    translator: Translator,
    sentence: str,
    forced: Sequence[int] = (),
    *,
    most_tokens: int | None = None,
) -> Translation:
    """Translate a sentence, beginning with forced ids.

    forced: ids of the target, without <sos>; <eos> may only be the last one, and then nothing else is written.
    most_tokens: of a sentence that may be looked into.
    Raises DataError if the sentence is blank or too long, or if its translation cannot begin so.
    """
    read = translator.long_lines("split the sentence").line(sentence).read
    if most_tokens is not None and len(read) > most_tokens:
        raise DataError(f"{len(read)} tokens, but at most {most_tokens} can be looked into; split the sentence")
    if not read:
        raise DataError("the sentence has no letter, so there is nothing to translate; give it a word")
    n_words, limit = len(forced) - (EOS in forced[-1:]), translator.settings.limit(len(read), translator.max_length)
    if n_words > limit:
        raise DataError(f"{n_words} tokens are forced, but the translation may have {limit}; force fewer")
    (translation,) = translator.with_options(prefix=tuple(forced[:limit])).translate_encoded([sentence], [read])
    return translation


@torch.inference_mode()
def decoder_choices(
    translator: Translator, translation: Translation, *, n: int = N_CANDIDATES
) -> tuple[list[Choice], Tensor]:
    """Returns each step of a translation with its n likeliest candidates, and what it attended to.

    There is one step more than tokens if the end was written. The probabilities are the models' own, before any
    constraint; of an ensemble, the mean. The attention is that of the last layer to the source with <sos> and <eos>,
    (steps, source), the mean of its heads. translation: of a sentence with a letter. Raises MemoryShortage.
    """
    written = [*translation.ids, EOS][: translator.settings.limit(len(translation.source_ids), translator.max_length)]
    models = translator.engine.models
    device = next(models[0].parameters()).device
    source = torch.tensor([[SOS, *translation.source_ids, EOS]], device=device)
    read = torch.tensor([[SOS, *written[:-1]]], device=device)
    records = [AttentionRecord() for _ in models]
    with room_for(
        lambda: f"a look at {len(written)} steps of a translation does not fit in memory; split the sentence"
    ):
        logits = [model(source, read, record)[0] for model, record in zip(models, records, strict=True)]
        probabilities = mean_log_probs(logits).exp().cpu()
    of_written = probabilities[range(len(written)), written].tolist()
    probabilities[:, UNWRITTEN] = -1.0
    values, ids = probabilities.topk(min(n, probabilities.shape[1] - len(UNWRITTEN)), dim=1)

    def candidate(index: int, probability: float) -> Candidate:
        token = SPECIALS[index] if index < len(SPECIALS) else translator.run.codecs.target.tokens([index])[0]
        return Candidate(index, token, probability)

    steps = [
        Choice(candidate(index, probability), list(map(candidate, *likeliest)))
        for index, probability, *likeliest in zip(written, of_written, ids.tolist(), values.tolist(), strict=True)
    ]
    return steps, torch.stack([record.cross[-1].weights[0].mean(dim=0) for record in records]).mean(dim=0).cpu()
