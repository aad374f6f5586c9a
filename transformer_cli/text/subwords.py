"""Text ↔ subwords: training a SentencePiece model, cutting text into its pieces, and joining them again.

The only module that imports SentencePiece. Joining restores any line exactly: SentencePiece does not normalise it, a
character without a piece is written as its UTF-8 bytes, and "▁", SentencePiece's sign for a space, is escaped. Knows no
files.
"""

import io
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from transformer_cli.errors import ConfigError, DataError
from transformer_cli.text.normalization import WORD_BREAK, has_word_breaks, is_ignored
from transformer_cli.text.vocabulary import EOS, PAD, SOS, SPECIALS, UNK

SENTENCEPIECE_VERSION = version("sentencepiece")
CHARACTER_COVERAGE = 0.99995  # share of the text whose characters get a piece; rarer ones are written as bytes
MAX_TRAINING_CHARS = 1_000  # at most 4,000 bytes: SentencePiece ignores training lines over 4,192 bytes
SPACE_MARK = "▁"  # as SentencePiece writes a space
ESCAPE = "\ue000"  # a private-use character: a text's "▁" becomes ESCAPE + "_", and its ESCAPE is doubled

log = logging.getLogger(__name__)


def train_subwords(lines: Iterable[str], *, vocab_size: int, algorithm: str, symbols: Sequence[str] = ()) -> bytes:
    """Train a SentencePiece model, for `SubwordModel`; the same lines give the same bytes.

    vocab_size: number of ids, including special ones and the 256 bytes. algorithm: bpe or unigram. symbols: text that
    is always one piece. If the text has too few different pieces, the model is smaller, and a warning says so. Raises
    ConfigError if vocab_size is too small for the characters of the text.
    """
    lines = list(lines)
    try:
        return _train(lines, vocab_size, algorithm, symbols)
    except RuntimeError as error:
        why = f"cannot be learned from the training text: {error}"
        if found := re.search(r"value <= (\d+)", str(error)):
            log.warning("the training text gives %s subwords, not data.subwords.vocab_size: %d", found[1], vocab_size)
            return _train(lines, int(found[1]), algorithm, symbols)
        if found := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            why = f"is too small for the bytes and the characters of the training text; set it to {found[1]} or more"
        raise ConfigError(f"data.subwords.vocab_size: {vocab_size} {why}") from None


def min_vocab_size(lines: Iterable[str]) -> int:
    """Returns how many ids a text needs at least: special ones, bytes, and the characters that get a piece."""
    counts = Counter(chain.from_iterable(lines))
    left, needed = CHARACTER_COVERAGE * counts.total(), 0
    for _, times in counts.most_common():
        if left <= 0:
            break
        left, needed = left - times, needed + 1
    return len(SPECIALS) + 256 + needed


def _train(lines: Sequence[str], vocab_size: int, algorithm: str, symbols: Sequence[str]) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_short_lines(lines),
        model_writer=model,
        model_type=algorithm,
        vocab_size=vocab_size,
        character_coverage=CHARACTER_COVERAGE,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        byte_fallback=True,
        user_defined_symbols=list(symbols),
        unk_id=UNK,
        pad_id=PAD,
        bos_id=SOS,
        eos_id=EOS,
        unk_piece=SPECIALS[UNK],
        pad_piece=SPECIALS[PAD],
        bos_piece=SPECIALS[SOS],
        eos_piece=SPECIALS[EOS],
        num_threads=1,  # the model would depend on the number of threads
        minloglevel=2,  # errors only
    )
    return model.getvalue()


@dataclass(frozen=True)
class SubwordModel:
    """A SentencePiece model: text ↔ pieces ↔ ids."""

    proto: bytes = field(repr=False)
    """the file's content, as `train_subwords` returns it"""

    @staticmethod
    def from_bytes(model: bytes, path: Path) -> "SubwordModel":
        """Returns the model that a file contains. Raises DataError for a damaged file."""
        pieces = SubwordModel(model)
        try:
            if not (model and pieces.all_tokens()):  # may fail although the model can be opened
                raise RuntimeError("it has no pieces")
        except (RuntimeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: SentencePiece cannot read it: {' '.join(str(error).split())}") from None
        return pieces

    @cached_property
    def _processor(self) -> Any:
        """Created on first use, so that a model can be sent to another process."""
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_proto=self.proto)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def all_tokens(self) -> list[str]:
        """Returns all pieces as SentencePiece writes them, with "▁" for a space."""
        return [self._processor.id_to_piece(index) for index in range(len(self))]

    @cached_property
    def _tokens(self) -> list[str]:
        return [_shown(piece) for piece in self.all_tokens()]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns pieces in readable form: "▁" becomes a space, a byte "<0xC3>", a tab "<U+0009>"."""
        return [self._tokens[index] for index in ids]

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that have a piece, and the space; all others are written as bytes.

        Other white space and invisible characters are included only if a longer piece contains them. After a rare one,
        a word would be cut into pieces that the model has never seen there. For Thai or Khmer, U+200B needs only a
        piece of its own: words are cut alike with and without it.
        """
        model = self._processor
        reserved = (model.is_control, model.is_unknown, model.is_byte)
        text = [index for index in range(len(self)) if not any(is_reserved(index) for is_reserved in reserved)]
        pieces = [model.id_to_piece(index).replace(SPACE_MARK, " ") for index in text]
        beside = set("".join(piece for piece in pieces if len(piece) > 1))
        chars = {" "}.union(*pieces)
        if any(map(has_word_breaks, chars)):
            beside.add(WORD_BREAK)
        if ESCAPE in chars:
            chars.add(SPACE_MARK)
        return frozenset(char for char in chars if char in beside or not (char.isspace() or is_ignored(char)))

    def ids(self, line: str) -> list[int]:
        """Returns the ids of a line's pieces; a blank line has none."""
        return self._processor.encode(_escaped(line)) if line.strip() else []

    def ids_of_lines(self, lines: Iterable[str]) -> list[list[int]]:
        """Like `ids`, for many lines; SentencePiece uses several threads."""
        return self._processor.encode([_escaped(line) if line.strip() else "" for line in lines])

    def pieces_of_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """Returns each line's pieces as SentencePiece writes them; text without a piece is returned as it is."""
        if len(lines) == 1:  # for a list, SentencePiece starts threads, which takes ten times as long as one line
            return [self._processor.encode(lines[0], out_type=str)]
        return self._processor.encode(list(lines), out_type=str)

    def join_pieces(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces, on one line: the inverse of `pieces_of_lines`."""
        unknown = SPECIALS[UNK]  # which SentencePiece would replace by " ⁇ "
        text: str = self._processor.decode([ESCAPE if piece == unknown else piece for piece in pieces])
        return text.replace(ESCAPE, unknown).replace("\n", " ").strip()

    def decode(self, ids: Sequence[int], unk_replacements: Sequence[str] | None = None) -> str:
        """Returns the text of ids, on one line, without special tokens; bytes that are not UTF-8 become U+FFFD.

        unk_replacements: not used, since there is no `<unk>`.
        """
        text = self._processor.decode([index for index in ids if index >= len(SPECIALS)])
        return _unescaped(text).replace("\n", " ")


def _short_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield training lines, long ones in parts, without NUL and "▅": SentencePiece skips lines that contain them."""
    for line in lines:
        line = _escaped(line).replace("\0", " ").replace("▅", " ")
        yield from (line[start : start + MAX_TRAINING_CHARS] for start in range(0, len(line), MAX_TRAINING_CHARS))


def _escaped(line: str) -> str:
    return line.replace(ESCAPE, ESCAPE * 2).replace(SPACE_MARK, f"{ESCAPE}_")


def _unescaped(text: str) -> str:
    return re.sub(f"{ESCAPE}([{ESCAPE}_])", lambda found: SPACE_MARK if found[1] == "_" else ESCAPE, text)


def _shown(piece: str) -> str:
    text = _unescaped(piece.replace(SPACE_MARK, " "))
    return text if text.isprintable() else "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)
