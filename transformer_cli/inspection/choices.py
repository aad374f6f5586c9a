"""The decoder's choices: what it wrote at each step, what it could have written, and what follows from another choice.

Knows no pictures and no HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from transformer_cli.data.fitting import Fitting
from transformer_cli.data.vocabulary import EOS, PAD, SOS, SPECIALS
from transformer_cli.decoding.candidates import find_candidates
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError
from transformer_cli.translator import Options, Translation, Translator

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


@dataclass(frozen=True)
class Choices:
    """A translation, step by step. There is one step more than tokens if the end was written."""

    translation: Translation
    steps: list[Choice]
    attention: Tensor
    """(steps, source with <sos> and <eos>): what the last layer attended to at each step, the mean of its heads"""


def translate_from(
    translator: Translator, sentence: str, forced: Sequence[int] = (), settings: SearchSettings | None = None
) -> Translation:
    """Translate a sentence, beginning with forced ids. The translation carries its attention.

    forced: ids of the target, without <sos>; <eos> may only be the last one, and then nothing else is written.
    settings: how to search (None: as the run's config says).
    Raises DataError if the sentence is blank or too long, or if its translation cannot begin so.
    """
    settings = settings or translator.settings
    read = Fitting(translator.run.codecs.source, translator.max_length, "stop").line(sentence).read
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
    (translation,) = translator.translations([sentence], options, settings)
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


def _candidate(translator: Translator, index: int, probability: float) -> Candidate:
    token = SPECIALS[index] if index < len(SPECIALS) else translator.run.codecs.target.tokens([index])[0]
    return Candidate(index, token, probability)
