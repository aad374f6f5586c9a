"""Lines that are too long to be translated, and what becomes of them. Knows lengths, but no models and no searches.

A line is too long if it has more characters than LONGEST_LINE, or more tokens than the model has positions for. For a
model without a last position, LONGEST_LINE is also the limit for tokens: attention takes memory for each pair of them.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from transformer_cli.data.codec import Codec, Encoded
from transformer_cli.data.lines import LONGEST_LINE, TOO_LONG, is_too_long
from transformer_cli.data.vocabulary import MARKERS
from transformer_cli.errors import DataError

OnError = Literal["stop", "blank", "copy", "truncate"]
"""What becomes of a line that is too long: an error, an empty line, the line itself, or its beginning's translation"""

REMEDY = "split the sentence, or let --on-error say what becomes of such lines"
NO_TOKENS = Encoded([], [])


@dataclass(frozen=True)
class Line:
    """A line as it is translated."""

    sentence: str
    read: Encoded
    """what the encoder reads: nothing for a blank line, and for one that is not translated"""
    was_too_long: bool = False


@dataclass(frozen=True)
class Fitting:
    """Makes lines fit for translation."""

    codec: Codec
    max_length: int | None
    """the most positions that a sentence may take, <sos> and <eos> included (None: no limit)"""
    on_error: OnError
    remedy: str = REMEDY
    """what errors tell the user to do"""

    def __post_init__(self) -> None:
        assert self.on_error in get_args(OnError)

    def line(self, sentence: str) -> Line:
        """Encode a line. Raises DataError if it is too long and on_error is "stop"."""
        if not is_too_long(sentence):
            return self.encoded(sentence, self.codec.encode(sentence))
        if self.on_error == "stop":
            raise DataError(f"{TOO_LONG}; {self.remedy}")
        sentence = sentence[:LONGEST_LINE]  # files are not read any further either
        read = self.codec.encode(sentence) if self.on_error == "truncate" else NO_TOKENS
        return replace(self.encoded(sentence, read), was_too_long=True)

    def encoded(self, sentence: str, read: Encoded) -> Line:
        """The same for a line that has been encoded."""
        most = LONGEST_LINE if self.max_length is None else self.max_length - MARKERS
        if len(read) <= most:
            return Line(sentence, read)
        if self.on_error == "stop":
            why = "" if self.max_length is None else f" (its {self.max_length} positions minus <sos> and <eos>)"
            raise DataError(f"{len(read)} tokens, but the model takes at most {most}{why}; {self.remedy}")
        return Line(sentence, read.first(most) if self.on_error == "truncate" else NO_TOKENS, was_too_long=True)
