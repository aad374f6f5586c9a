"""The rules of a search: which tokens may be generated, how many, and how hypotheses are ranked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from transformer_cli.config.schema import TranslationSettings
from transformer_cli.text.vocabulary import EOS, N_SOS_EOS, SOS

if TYPE_CHECKING:
    from torch import Tensor

NEG_INF = float("-inf")  # the logit of a forbidden token


Number = TypeVar("Number", float, "Tensor")


def max_target_tokens(
    settings: TranslationSettings, source_tokens: int, max_length: int | None, *, extra_tokens: int = 0
) -> int:
    """Returns the maximum length of a translation.

    source_tokens: the length of the source. max_length: the model's number of positions (None: no limit). extra_tokens:
    those of constraints, which may be longer than the words they replace.
    """
    n_tokens = extra_tokens + (2 * source_tokens + 10 if settings.max_tokens is None else settings.max_tokens)
    return n_tokens if max_length is None else min(n_tokens, max_length - N_SOS_EOS)


def score(log_prob: Number, length: Number | int, length_penalty: float) -> Number:
    """Returns log_prob / length^α, as in CTranslate2, fairseq and Marian, for one hypothesis or many.

    length: the number of summed log-probabilities, at least 1. length_penalty: α.
    """
    return log_prob / length**length_penalty


@dataclass(frozen=True, kw_only=True)
class SearchRules:
    """Which tokens may be generated, in all searches here; ctranslate2.py passes the same rules to CTranslate2."""

    max_tokens: "Tensor"
    """int64 (sentences,): the maximum length of each translation, at least 1, <eos> not counted"""
    suppressed_ids: "Tensor"
    """int64: ids that are never generated"""
    sos: int = SOS
    eos: int = EOS
    no_repeat_ngram_size: int = 0
    """n-grams of this length may not occur twice in a translation (0: no such rule)"""
    prefix: Sequence[int] = ()
    """ids with which each translation begins, even if they repeat an n-gram"""
    length_penalty: float = 1.0
    """α of the scores"""

    def mask_logits(self, logits: "Tensor", tokens: "Tensor") -> None:
        """Set the logits (rows, vocabulary) of forbidden next tokens to -inf, in place.

        tokens int64 (rows, length): the tokens so far. After the prefix, <eos> is always allowed.
        """
        logits.index_fill_(1, self.suppressed_ids, NEG_INF)
        position = tokens.shape[1]
        if position < len(self.prefix):
            forced = logits[:, self.prefix[position]].clone()
            logits.fill_(NEG_INF)
            logits[:, self.prefix[position]] = forced
        elif 0 < self.no_repeat_ngram_size <= position:
            logits[_banned_ngram_tokens(tokens, self.no_repeat_ngram_size)] = NEG_INF


def _banned_ngram_tokens(tokens: "Tensor", size: int) -> "tuple[Tensor, Tensor]":
    """Returns rows and ids, both int64 (n,): ids[i] would repeat an n-gram of row rows[i] of tokens.

    For example, after 7 8 9 7 8 with size 3, the id 9 would repeat 7 8 9.
    """
    seen = tokens.unfold(1, size, 1)  # (rows, n-grams, size)
    newest = tokens[:, None, tokens.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    rows, which = (seen[:, :, :-1] == newest).all(dim=2).nonzero(as_tuple=True)
    return rows, seen[rows, which, -1]
