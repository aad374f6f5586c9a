"""Encodes lines for translation, and splits, truncates, copies or refuses those that are too long.

A line is too long if it has more than MAX_LINE_CHARS characters, or more tokens than the model has positions. A model
without a maximum takes MAX_LINE_CHARS tokens: attention needs memory for each pair of them. Knows no models and no
searches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from transformer_cli.config.schema import MAX_LINE_CHARS, OnTooLong
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span
from transformer_cli.text.codec import Codec, EncodedText, with_target_of_line
from transformer_cli.text.lines import TOO_LONG, has_letter, is_too_long
from transformer_cli.text.sentences import mask_spans, sentence_spans, split_long_sentence
from transformer_cli.text.vocabulary import N_SOS_EOS

TOO_LONG_REMEDY = "split the sentence, or choose with on_too_long what to do with such lines"
NO_TOKENS = EncodedText([], [])

FindSpans = Callable[[str], Sequence[Span]]
"""returns the protected spans of a text, which are neither cut nor translated, from left to right"""


@dataclass(frozen=True)
class InputLine:
    """An encoded line, or a part of one."""

    sentence: str
    encoded: EncodedText
    """the encoder's input: empty for a blank line, and for one that is not translated"""
    was_too_long: bool = False
    is_copied: bool = False
    """whether its translation is the line itself"""
    start: int = 0
    """its offset in the line that it is a part of"""
    parts: Sequence["InputLine"] | None = None
    """the parts that are translated one by one, if the line was split"""

    @property
    def units(self) -> Sequence["InputLine"]:
        """The parts, or the line itself if it was not split."""
        return (self,) if self.parts is None else self.parts


def bounded_sentence_spans(
    text: str, language: str, protected_spans: FindSpans, borders: Sequence[int] = ()
) -> list[Span]:
    """Returns the spans of a text's sentences; one with too many characters is cut, see `split_long_sentence`.

    borders: see `sentence_spans`.
    """
    masked = mask_spans(text, protected_spans(text))
    return [
        piece
        for span in sentence_spans(masked, language, borders)
        for piece in split_long_sentence(masked, span, lambda start, end: end - start <= MAX_LINE_CHARS)
    ]


@dataclass(frozen=True)
class LineEncoder:
    """Encodes lines with the source's codec."""

    codec: Codec
    max_length: int | None
    """number of positions that a sentence may take, <sos> and <eos> included (None: no limit)"""
    on_too_long: OnTooLong
    protected_spans: FindSpans = lambda text: ()
    remedy: str = TOO_LONG_REMEDY
    """what errors tell the user to do"""

    @property
    def max_tokens(self) -> int:
        """Number of tokens that a line may have."""
        return MAX_LINE_CHARS if self.max_length is None else self.max_length - N_SOS_EOS

    def encode(self, sentence: str) -> InputLine:
        """Encode a line. Raises DataError if it is too long and on_too_long is "stop"."""
        if not is_too_long(sentence):
            return self.from_encoded(sentence, self._encode_text(sentence))
        sentence = sentence[:MAX_LINE_CHARS]  # as when lines are read from a file
        if line := self._untranslated(sentence, TOO_LONG):
            return line
        return replace(self.from_encoded(sentence, self._encode_text(sentence)), was_too_long=True)

    def from_encoded(self, sentence: str, encoded_text: EncodedText) -> InputLine:
        """Like `encode`, for text that has been encoded.

        A line without tokens is copied, and so is one without a letter, unless the codec knows no letters at all.
        """
        if not encoded_text or (not has_letter(encoded_text.normalized.text) and has_letter(self.codec.characters)):
            return InputLine(sentence, NO_TOKENS, is_copied=bool(sentence.strip()))
        n = self.max_tokens
        if len(encoded_text) <= n:
            return InputLine(sentence, encoded_text)
        why = "" if self.max_length is None else f" (its {self.max_length} positions minus <sos> and <eos>)"
        if line := self._untranslated(sentence, f"{len(encoded_text)} tokens, but the model takes at most {n}{why}"):
            return line
        truncated = EncodedText(encoded_text.tokens[:n], encoded_text.ids[:n], encoded_text.normalized)
        return InputLine(sentence, truncated, was_too_long=True)

    def _untranslated(self, sentence: str, problem: str) -> InputLine | None:
        """Returns the result for a line that is copied or skipped; None if it is to be truncated. Raises DataError."""
        if self.on_too_long == "stop":
            raise DataError(f"{problem}; {self.remedy}")
        if self.on_too_long == "truncate":
            return None
        return InputLine(sentence, NO_TOKENS, was_too_long=True, is_copied=self.on_too_long == "copy")

    def split_sentences(self, line: str, language: str) -> InputLine:
        """Split a line into sentences, each as in `split_to_fit`. language: a code. Raises DataError as `encode`."""
        was_too_long = is_too_long(line)
        if was_too_long and self.on_too_long != "truncate":
            return self.encode(line)
        line = line[:MAX_LINE_CHARS]
        masked = mask_spans(line, self.protected_spans(line))
        spans = sentence_spans(masked, language)
        parts = [part for span in spans for part in self._pieces(line, masked, span, self.max_tokens)]
        return InputLine(line, NO_TOKENS, was_too_long, parts=parts)

    def split_to_fit(self, sentence: str, max_tokens: int) -> InputLine:
        """Like `encode`, but splits a sentence with more than max_tokens tokens; see `split_long_sentence`."""
        whole, most = (0, len(sentence)), min(max_tokens, self.max_tokens)
        parts = list(self._pieces(sentence, mask_spans(sentence, self.protected_spans(sentence)), whole, most))
        return parts[0] if len(parts) == 1 else InputLine(sentence, NO_TOKENS, parts=parts)

    def _pieces(self, line: str, masked: str, span: Span, max_tokens: int) -> Iterator[InputLine]:
        encoder = replace(self, codec=with_target_of_line(self.codec, line))
        encode = cache(lambda start, end: encoder._encode_text(line[start:end]))
        for start, end in split_long_sentence(masked, span, lambda *span: len(encode(*span)) <= max_tokens):
            yield replace(self.from_encoded(line[start:end], encode(start, end)), start=start)

    def _encode_text(self, sentence: str) -> EncodedText:
        return self.codec.encode(sentence, self.protected_spans(sentence))
