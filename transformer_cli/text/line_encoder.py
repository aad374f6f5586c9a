"""Lines that are too long to be translated, and what becomes of them. Knows lengths, but no models and no searches.

A line is too long if it has more characters than LONGEST_LINE, or more tokens than the model has positions for. For a
model without a last position, LONGEST_LINE is also the limit for tokens: attention takes memory for each pair of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from transformer_cli.config.schema import OnError
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span
from transformer_cli.text.codec import Codec, Encoded, asking_like
from transformer_cli.text.lines import LONGEST_LINE, TOO_LONG, has_letter, is_too_long
from transformer_cli.text.sentences import mask, pieces, sentences
from transformer_cli.text.vocabulary import MARKERS

REMEDY = "split the sentence, or let on_error say what becomes of such lines"
NO_TOKENS = Encoded([], [])

FindSpans = Callable[[str], Sequence[Span]]
"""Returns the spans of a text that are neither cut nor translated, from left to right"""


@dataclass(frozen=True)
class Line:
    """A line as it is translated."""

    sentence: str
    read: Encoded
    """what the encoder reads: nothing for a blank line, and for one that is not translated"""
    was_too_long: bool = False
    is_copied: bool = False
    """whether it is its own translation"""
    start: int = 0
    """where it begins in the line that it is a part of"""
    parts: Sequence["Line"] | None = None
    """what is read and translated in its place, one by one, if it was split"""

    @property
    def units(self) -> Sequence["Line"]:
        """Its parts, or itself if it was not split."""
        return (self,) if self.parts is None else self.parts


def readable(text: str, language: str, protected: FindSpans) -> list[Span]:
    """Returns where the sentences of a text of any length stand; one with too many characters is cut into `pieces`."""
    masked = mask(text, protected(text))
    return [
        piece
        for span in sentences(masked, language)
        for piece in pieces(masked, span, lambda start, end: end - start <= LONGEST_LINE)
    ]


@dataclass(frozen=True)
class LongLines:
    """Makes lines fit for translation."""

    codec: Codec
    max_length: int | None
    """the most positions that a sentence may take, <sos> and <eos> included (None: no limit)"""
    on_error: OnError
    protected: FindSpans = lambda text: ()
    remedy: str = REMEDY
    """what errors tell the user to do"""

    @property
    def most_tokens(self) -> int:
        """How many tokens a line may have."""
        return LONGEST_LINE if self.max_length is None else self.max_length - MARKERS

    def line(self, sentence: str) -> Line:
        """Encode a line. Raises DataError if it is too long and on_error is "stop"."""
        if not is_too_long(sentence):
            return self.encoded(sentence, self._encode(sentence))
        sentence = sentence[:LONGEST_LINE]  # files are not read any further either
        if left := self._left(sentence, TOO_LONG):
            return left
        return replace(self.encoded(sentence, self._encode(sentence)), was_too_long=True)

    def encoded(self, sentence: str, encoded_text: Encoded) -> Line:
        """The same for a line that has been encoded.

        One without a letter is not translated, unless there is none in the training text either. Nor is one of which
        nothing is read.
        """
        if not encoded_text or not (has_letter(encoded_text.normalized.text) or not has_letter(self.codec.characters)):
            return Line(sentence, NO_TOKENS, is_copied=bool(sentence.strip()))
        most = self.most_tokens
        if len(encoded_text) <= most:
            return Line(sentence, encoded_text)
        why = "" if self.max_length is None else f" (its {self.max_length} positions minus <sos> and <eos>)"
        if left := self._left(sentence, f"{len(encoded_text)} tokens, but the model takes at most {most}{why}"):
            return left
        read = Encoded(encoded_text.tokens[:most], encoded_text.ids[:most], encoded_text.normalized)
        return Line(sentence, read, was_too_long=True)

    def _left(self, sentence: str, problem: str) -> Line | None:
        """Returns what a line that is too long becomes; None if its beginning is translated. Raises DataError."""
        if self.on_error == "stop":
            raise DataError(f"{problem}; {self.remedy}")
        if self.on_error == "truncate":
            return None
        return Line(sentence, NO_TOKENS, was_too_long=True, is_copied=self.on_error == "copy")

    def split(self, line: str, language: str) -> Line:
        """Cut a line into its sentences, as `cut` does each of them. Raises DataError as `line` does.

        language: a code, see `sentences`.
        """
        was_too_long = is_too_long(line)
        if was_too_long and self.on_error != "truncate":
            return self.line(line)
        line = line[:LONGEST_LINE]
        masked = mask(line, self.protected(line))
        spans = sentences(masked, language)
        parts = [part for span in spans for part in self._pieces(line, masked, span, self.most_tokens)]
        return Line(line, NO_TOKENS, was_too_long, parts=parts)

    def cut(self, sentence: str, most_tokens: int) -> Line:
        """Like `line`, for a sentence; it is cut into `pieces` if it has more than so many tokens, or is too long."""
        whole, most = (0, len(sentence)), min(most_tokens, self.most_tokens)
        parts = list(self._pieces(sentence, mask(sentence, self.protected(sentence)), whole, most))
        return parts[0] if len(parts) == 1 else Line(sentence, NO_TOKENS, parts=parts)

    def _pieces(self, line: str, masked: str, span: Span, most_tokens: int) -> Iterator[Line]:
        own = replace(self, codec=asking_like(self.codec, line))
        encode = cache(lambda start, end: own._encode(line[start:end]))
        for start, end in pieces(masked, span, lambda *span: len(encode(*span)) <= most_tokens):
            yield replace(self.encoded(line[start:end], encode(start, end)), start=start)

    def _encode(self, sentence: str) -> Encoded:
        return self.codec.encode(sentence, self.protected(sentence))
