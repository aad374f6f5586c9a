"""Text ↔ pieces of words: how pieces are learned, and how text is cut into them and put together again.

The one owner of SentencePiece. Any line comes back exactly: it is not normalised, a character that has no piece is
written as its UTF-8 bytes, and "▁", with which SentencePiece writes a space, is escaped. Knows no files.
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
CHARACTER_COVERAGE = 0.99995  # characters that make up the rest of the text get no piece: they are written as bytes
MAX_TRAINING_CHARS = (
    1_000  # characters, which have at most 4,000 bytes: SentencePiece learns nothing from lines over 4,192 bytes
)
SPACE_MARK = "▁"  # as SentencePiece writes it
ESCAPE = "\ue000"  # for private use: "▁" is written as ESCAPE + "_", and ESCAPE itself twice

log = logging.getLogger(__name__)


def train_subwords(lines: Iterable[str], *, size: int, algorithm: str, symbols: Sequence[str] = ()) -> bytes:
    """Learn pieces from text; the same lines make the same bytes. Returns SentencePiece's model, for `SubwordModel`.

    size: how many ids there will be, including special ones and the 256 bytes. algorithm: bpe or unigram. symbols:
    what is one piece wherever it stands.
    Of a text that gives fewer pieces, all are taken, with a warning. Raises ConfigError if the text cannot be described
    by so few.
    """
    lines = list(lines)
    try:
        return _train(lines, size, algorithm, symbols)
    except RuntimeError as error:
        why = f"cannot be learned from the training text: {error}"
        if found := re.search(r"value <= (\d+)", str(error)):
            log.warning("the training text gives %s subwords only, not data.subwords.vocab_size: %d", found[1], size)
            return _train(lines, int(found[1]), algorithm, symbols)
        if found := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            why = f"is too small for the bytes and the characters of the training text; set it to {found[1]} or more"
        raise ConfigError(f"data.subwords.vocab_size: {size} {why}") from None


def min_vocab_size(lines: Iterable[str]) -> int:
    """Returns how many ids text needs at least: special ones, bytes, and the characters that get a piece."""
    counts = Counter(chain.from_iterable(lines))
    left, needed = CHARACTER_COVERAGE * counts.total(), 0
    for _, times in counts.most_common():
        if left <= 0:
            break
        left, needed = left - times, needed + 1
    return len(SPECIALS) + 256 + needed


def _train(lines: Sequence[str], size: int, algorithm: str, symbols: Sequence[str]) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_short_lines(lines),
        model_writer=model,
        model_type=algorithm,
        vocab_size=size,
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
        num_threads=1,  # sums of several threads would depend on their number
        minloglevel=2,  # errors only
    )
    return model.getvalue()


@dataclass(frozen=True)
class SubwordModel:
    """The pieces that a model of SentencePiece has, and the way from text to their ids and back."""

    proto: bytes = field(repr=False)
    """what `train_subwords` returned"""

    @staticmethod
    def from_bytes(model: bytes, path: Path) -> "SubwordModel":
        """The same for a model that was read from a file. Raises DataError if it is none."""
        pieces = SubwordModel(model)
        try:
            if not (model and pieces.all_tokens()):  # which fails for a damaged model that could be opened
                raise RuntimeError("it has no pieces")
        except (RuntimeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: SentencePiece cannot read it: {' '.join(str(error).split())}") from None
        return pieces

    @cached_property
    def _processor(self) -> Any:
        """Made on first use, since pieces may be made in one process and used in another."""
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_proto=self.proto)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def all_tokens(self) -> list[str]:
        """Each piece as SentencePiece writes it, with "▁" for a space."""
        return [self._processor.id_to_piece(index) for index in range(len(self))]

    @cached_property
    def _tokens(self) -> list[str]:
        return [_shown(piece) for piece in self.all_tokens()]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """How pieces are shown: text, with a space as a space; "<0xC3>" for a byte, "<U+0009>" for a tab."""
        return [self._tokens[index] for index in ids]

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that have a piece, and the space; all others are written as bytes.

        A space of another kind, or what is invisible, is among them only if a piece has it beside something else: where
        it is rare, a word behind it is cut into pieces that the model has never seen there. Between words of Thai or
        Khmer, U+200B is known wherever it has a piece: no space stands there, so the words are cut alike.
        """
        model = self._processor
        reserved = (model.is_control, model.is_unknown, model.is_byte)
        text = [index for index in range(len(self)) if not any(is_reserved(index) for is_reserved in reserved)]
        pieces = [model.id_to_piece(index).replace(SPACE_MARK, " ") for index in text]
        beside = set("".join(piece for piece in pieces if len(piece) > 1))
        chars = "".join([" ", *pieces])
        if any(map(has_word_breaks, chars)):
            beside.add(WORD_BREAK)
        return frozenset(char for char in chars if char in beside or not (char.isspace() or is_ignored(char)))

    def ids(self, line: str) -> list[int]:
        """Returns the ids of a line's pieces; a blank line has none."""
        return self._processor.encode(_escaped(line)) if line.strip() else []

    def ids_of_lines(self, lines: Iterable[str]) -> list[list[int]]:
        """The same for many lines, on several cores: SentencePiece starts threads for it."""
        return self._processor.encode([_escaped(line) if line.strip() else "" for line in lines])

    def pieces_of_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """Returns each line's pieces as SentencePiece writes them, unescaped; of what has none, the text itself."""
        return self._processor.encode(list(lines), out_type=str)

    def join_pieces(self, pieces: Sequence[str]) -> str:
        """Returns the text of what `pieces_of_lines` returned for a line, on one line."""
        unknown = SPECIALS[UNK]  # of which SentencePiece would make a sign
        text: str = self._processor.decode([ESCAPE if piece == unknown else piece for piece in pieces])
        return text.replace(ESCAPE, unknown).replace("\n", " ").strip()

    def decode(self, ids: Sequence[int], unk_replacements: Sequence[str] | None = None) -> str:
        """Returns the text of these ids, on one line. Special ids are left out.

        Bytes that are not UTF-8, which a model may write, become U+FFFD. unk_replacements: not used, since there is no
        `<unk>`.
        """
        text = self._processor.decode([index for index in ids if index >= len(SPECIALS)])
        return _unescaped(text).replace("\n", " ")


def _short_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as SentencePiece can learn from them; a long one in parts. It skips those with NUL or "▅"."""
    for line in lines:
        line = _escaped(line).replace("\0", " ").replace("▅", " ")
        yield from (line[start : start + MAX_TRAINING_CHARS] for start in range(0, len(line), MAX_TRAINING_CHARS))


def _escaped(line: str) -> str:
    return line.replace(ESCAPE, ESCAPE * 2).replace(SPACE_MARK, f"{ESCAPE}_")


def _unescaped(text: str) -> str:
    return re.sub(f"{ESCAPE}([{ESCAPE}_])", lambda found: SPACE_MARK if found[1] == "_" else ESCAPE, text)


def _shown(piece: str) -> str:
    text = _unescaped(piece.replace(SPACE_MARK, " "))
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)
