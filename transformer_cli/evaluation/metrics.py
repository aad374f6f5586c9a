"""BLEU and chrF of plain text against raw references, with their signatures. The one owner of sacreBLEU.

References are scored as they were written: they never pass through a vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

CHARACTER_LANGUAGES = {"zh": "zh", "ja": "char", "ko": "char"}  # sacreBLEU's tokeniser where words have no spaces


@dataclass(frozen=True)
class Scores:
    """How good translations are, from 0 to 100."""

    bleu: float
    """BLEU of plain text against raw references"""
    bleu_signature: str
    bleu_tokens: float
    """BLEU of tokens against tokenised references, as tutorials report it. The tokens are the decoder's own words,
    `<unk>` kept, or where it writes subwords, spaCy's tokens of its text"""
    chrf: float
    """chrF of plain text against raw references"""
    chrf_signature: str


@dataclass(frozen=True)
class TokenizedText:
    """Lines of text, and the tokens of each."""

    lines: Sequence[str]
    tokens: Sequence[Sequence[str]]


def score(hypotheses: TokenizedText, references: TokenizedText, *, language: str, lowercase: bool) -> Scores:
    """Score hypotheses against references, line by line. `bleu_tokens` compares tokens, the other scores compare text.

    language: the language of the text, for sacreBLEU's tokeniser. lowercase: whether scores of text ignore case.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu = BLEU(lowercase=lowercase, tokenize=CHARACTER_LANGUAGES.get(language, "13a"))
    chrf = CHRF(lowercase=lowercase)
    own_tokens, reference_tokens = ([" ".join(line) for line in each.tokens] for each in (hypotheses, references))
    return Scores(
        bleu=bleu.corpus_score(hypotheses.lines, [references.lines]).score,
        bleu_signature=str(bleu.get_signature()),
        bleu_tokens=BLEU(tokenize="none", force=True).corpus_score(own_tokens, [reference_tokens]).score,
        chrf=chrf.corpus_score(hypotheses.lines, [references.lines]).score,
        chrf_signature=str(chrf.get_signature()),
    )


def bleu_of_text(texts: Sequence[str], references: Sequence[str], *, lowercase: bool) -> float:
    """Returns only the BLEU of plain text, with sacreBLEU's default tokeniser."""
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(lowercase=lowercase).corpus_score(texts, [references]).score)
