"""Text ↔ ids: one codec per side, source and target, each with a tokeniser and a vocabulary.

A dataset owns both codecs, and each run keeps copies of their files. A codec normalises a line (normalization.py)
before it cuts it into tokens. The ids of a line do not contain <sos> and <eos>. Knows no models, batches or search.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import DataConfig
from transformer_cli.errors import FileError
from transformer_cli.system.files import read_bytes, read_json, sha256_of_bytes, write_bytes, write_json
from transformer_cli.system.terminal import first_few
from transformer_cli.text.languages import TARGET_TOKEN, find_target_languages, target_token_of
from transformer_cli.text.normalization import NormalizedText, Normalizer, is_all_caps, is_word, lower
from transformer_cli.text.subwords import SPACE_MARK, SubwordModel
from transformer_cli.text.vocabulary import SPECIALS, UNK, Vocabulary
from transformer_cli.text.words import Detokenizer, Tokenizer, join_subwords

SIDES = ("source", "target")
MAX_CACHED_CHARS = 10_000  # an imported codec caches for so many whether it knows them

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodedText:
    """A line of text, cut into tokens."""

    tokens: list[str]
    """words, unknown ones too, or subwords; with `lowercase`, in lower case"""
    ids: list[int]
    """one per token; UNK for an unknown word"""
    normalized: NormalizedText = field(default_factory=NormalizedText)
    """the text that was cut into tokens, and its placeholders"""

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class WordCodec:
    """Words as tokens: a spaCy tokeniser, a vocabulary, and a detokeniser, which knows where to omit spaces.

    For example, without "quokka" in the vocabulary, "the quokka sleeps" is encoded as the ids 7, UNK, 9. Their tokens
    are "the", "<unk>", "sleeps"; decoded with unk_replacements=["der", "Quokka", "schläft"], they are
    "the Quokka sleeps".
    """

    language: str
    lowercase: bool
    vocabulary: Vocabulary
    detokenizer: Detokenizer
    by_spaces: bool = False
    """whether words are what stands between spaces (`data.tokens`), instead of spaCy's"""
    joiner: str | None = None
    """see `data.joiner`"""

    @staticmethod
    def of(data: DataConfig, side: str, vocabulary: Vocabulary, detokenizer: Detokenizer) -> "WordCodec":
        """Returns the codec of a side with the settings in `data`."""
        language, by_spaces = data.source if side == "source" else data.target, data.tokens == "spaces"
        return WordCodec(language, data.lowercased, vocabulary, detokenizer, by_spaces, data.joiner)

    @staticmethod
    def load(folder: Path, side: str, data: DataConfig) -> "WordCodec":
        """Read what `save` wrote; `data` has the language and the case.

        The source needs no detokeniser. The caller has verified the checksums of the files. Raises FileError.
        """
        vocabulary = Vocabulary.load(folder / f"{side}.vocab.txt")
        if side == "source":
            return WordCodec.of(data, side, vocabulary, Detokenizer())
        path = folder / f"{side}.detokenizer.json"
        try:
            detokenizer = Detokenizer.from_json(read_json(path))
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path}: damaged: {error}") from None
        return WordCodec.of(data, side, vocabulary, detokenizer)

    def save(self, folder: Path, side: str) -> None:
        """Write the codec's files; see `codec_files`. side: source or target."""
        self.vocabulary.save(folder / f"{side}.vocab.txt")
        if side == "target":
            write_json(folder / f"{side}.detokenizer.json", self.detokenizer.as_json())

    def __len__(self) -> int:
        """Size of the vocabulary, including <unk>, <pad>, <sos> and <eos>."""
        return len(self.vocabulary)

    @cached_property
    def characters(self) -> frozenset[str]:
        return self.vocabulary.characters

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokeniser, created on first use, because importing spaCy takes half a second."""
        return Tokenizer(self.language, lowercase=self.lowercase, by_spaces=self.by_spaces)

    @cached_property
    def normalizer(self) -> Normalizer:
        """The normaliser that `encode` uses."""
        knows_case = not self.lowercase and any(map(str.islower, self.characters))
        return Normalizer(self.characters.__contains__, self.language, False, self._word_cost if knows_case else None)

    def encode(self, line: str, protected: Sequence[tuple[int, int]] = ()) -> EncodedText:
        """Returns the tokens of a line and their ids; none for a blank line. protected: see `Normalizer.normalize`."""
        normalized = self.normalizer.normalize(line, protected)
        words = self.tokenizer.tokens(normalized.text)
        return EncodedText(words, self.vocabulary.to_ids(words), normalized)

    def encode_raw(self, text: str) -> EncodedText:
        """Like `encode`, without normalising: for target text such as a prefix."""
        words = self.tokenizer.tokens(text)
        return EncodedText(words, self.vocabulary.to_ids(words), NormalizedText(text))

    def dedup_key(self, line: str) -> str:
        """Returns the normalised line without white space, by which duplicates are found."""
        text = "".join(self.normalizer.normalize(line).text.split())
        return lower(text, self.language) if self.lowercase else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the vocabulary's token for each id; `<unk>` for UNK."""
        return self.vocabulary.to_tokens(ids)

    def all_tokens(self) -> list[str]:
        """Returns the vocabulary in the order of ids. All tokens differ, whereas `tokens` may show two ids alike."""
        return list(self.vocabulary.tokens)

    def decode(self, ids: Sequence[int], unk_replacements: Sequence[str] | None = None) -> str:
        """Returns the text of ids without <sos> and <eos>.

        unk_replacements: one token per id, written if the id is UNK, for example the attended source word (None: write
        `<unk>`).
        """
        tokens = self.vocabulary.to_tokens(ids, unk_replacements)
        return join_subwords(self.detokenizer.detokenize(tokens), self.joiner)

    def _word_cost(self, word: str) -> tuple[int, int]:
        (index,) = self.vocabulary.to_ids([word])
        return int(index == UNK), index  # the vocabulary has frequent words first


@dataclass(frozen=True)
class SubwordCodec(SubwordModel):
    """Subwords of SentencePiece as tokens. Decoding restores any line exactly; there is no `<unk>`.

    For example, "Zwei Quokkas" may become the tokens " Zwei", " Qu", "ok", "kas". Tokens show a space as a space, and a
    byte of a character that has no piece as "<0xC3>". For methods without a docstring see WordCodec.
    """

    lowercase: bool = False
    algorithm: Literal["bpe", "unigram", "imported"] = "bpe"
    language: str = "xx"
    """for upper and lower case"""
    default_target_token: str = field(default="", kw_only=True, compare=False)
    """target-language token prepended to lines without one; "" for none"""
    symbols: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    """text that is one token of a source: target tokens, and `user_defined_symbols`"""

    @staticmethod
    def load(folder: Path, side: str, data: DataConfig) -> "SubwordCodec":
        """Read what `save` wrote; `data` has the other fields. Raises as `WordCodec.load`."""
        path = folder / f"{side}.subwords.model"
        model = SubwordModel.from_bytes(read_bytes(path), path).proto
        language = data.source if side == "source" else data.target
        symbols = data.subwords.user_defined_symbols if side == "source" else ()
        return SubwordCodec(model, data.lowercased, data.subwords.algorithm, language, symbols=symbols)

    @cached_property
    def target_languages(self) -> dict[str, str]:
        """The target languages that a source can ask for: code → token."""
        return find_target_languages(self.all_tokens())

    def prepend_target_token(self, text: str) -> str:
        """Returns a line with the default target token, unless the line has a target token or is blank.

        If it has none, and there is no default, but the source has symbols for several languages, warns once.
        """
        may_lack_one = (self.default_target_token or self.symbols) and text.strip()
        if not may_lack_one or not self.target_languages or self.has_target_token(text):
            return text
        if self.default_target_token:
            return f"{self.default_target_token} {text}"
        _warn_no_target(*sorted(self.target_languages.items()))
        return text

    def has_target_token(self, text: str) -> bool:
        """Whether a line begins with any >>fra<<, or with a <2fr> that the model has (<2br> may be markup)."""
        found = TARGET_TOKEN.match(text.lstrip())
        return bool(found and self.target_languages and (found[1] or found[0] in self.target_languages.values()))

    def with_default_target(self, token: str) -> "SubwordCodec":
        """Returns the codec with another default target token. The copy keeps the cached properties."""
        other = copy(self)
        object.__setattr__(other, "default_target_token", token)
        return other

    def save(self, folder: Path, side: str) -> None:
        write_bytes(folder / f"{side}.subwords.model", self.proto)

    @cached_property
    def normalizer(self) -> Normalizer:
        knows_case = not self.lowercase and any(map(str.islower, self.characters))
        word_cost = self._word_cost if knows_case else None
        return Normalizer(self.characters.__contains__, self.language, self.lowercase, word_cost)

    def encode(self, line: str, protected: Sequence[tuple[int, int]] = ()) -> EncodedText:
        normalized = self._normalize(line, protected)
        return self._encode_normalized(self.prepend_target_token(normalized.text), normalized)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many lines, which SentencePiece cuts on several cores."""
        return self.ids_of_lines(self.prepend_target_token(self._normalize(line).text) for line in lines)

    def encode_raw(self, text: str) -> EncodedText:
        return self._encode_normalized(lower(text, self.language) if self.lowercase else text, NormalizedText(text))

    def dedup_key(self, line: str) -> str:
        return "".join(self._normalize(line).text.split())

    def _normalize(self, line: str, protected: Sequence[tuple[int, int]] = ()) -> NormalizedText:
        return self.normalizer.normalize(line, protected)

    def _encode_normalized(self, text: str, normalized: NormalizedText) -> EncodedText:
        ids = self.ids(text)
        return EncodedText(self.tokens(ids), ids, normalized)

    def _word_cost(self, word: str) -> tuple[int, int]:
        ids = self.ids(word)
        return len(ids) + len(word) * ids.count(UNK), sum(ids)  # SentencePiece has frequent pieces first


@dataclass(frozen=True)
class ImportedCodec(SubwordCodec):
    """The subwords of an imported model: its SentencePiece model cuts text, and a vocabulary has the ids of the pieces.

    A piece that is not in the vocabulary is `<unk>`. A line of known characters is normalised by SentencePiece alone,
    as in the model's training. A target token such as ">>fra<<" is one token at the beginning of a line; other symbols
    are one token anywhere.
    """

    vocabulary: Vocabulary = field(default=Vocabulary(SPECIALS), kw_only=True)

    @staticmethod
    def load(folder: Path, side: str, data: DataConfig) -> "ImportedCodec":
        """Read what `save` wrote. Raises as `WordCodec.load`."""
        plain = SubwordCodec.load(folder, side, data)
        vocabulary = Vocabulary.load(folder / f"{side}.vocab.txt")
        targets = find_target_languages(vocabulary.tokens).values()
        symbols = (*targets, *data.subwords.user_defined_symbols) if side == "source" else ()
        return ImportedCodec(
            plain.proto, algorithm="imported", language=plain.language, vocabulary=vocabulary, symbols=symbols
        )

    @cached_property
    def target_languages(self) -> dict[str, str]:
        return find_target_languages(self.symbols)

    def save(self, folder: Path, side: str) -> None:
        super().save(folder, side)
        self.vocabulary.save(folder / f"{side}.vocab.txt")

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def characters(self) -> frozenset[str]:
        return self.vocabulary.characters

    @cached_property
    def normalizer(self) -> Normalizer:
        of_symbols = frozenset("".join(self.symbols))

        @lru_cache(MAX_CACHED_CHARS)
        def is_known(char: str) -> bool:
            (pieces,) = self.pieces_of_lines([char])
            is_other = char == SPACE_MARK or any(each.startswith("<0x") for each in pieces)  # a space, or bytes
            return char in of_symbols or (UNK not in self.vocabulary.to_ids(pieces) and not is_other)

        return Normalizer(is_known, self.language, False, self._word_cost)

    def ids(self, line: str) -> list[int]:
        return self.ids_of_lines([line])[0]

    def ids_of_lines(self, lines: Iterable[str]) -> list[list[int]]:
        return list(map(self.vocabulary.to_ids, self._split_into_pieces(list(lines))))

    def _normalize(self, line: str, protected: Sequence[tuple[int, int]] = ()) -> NormalizedText:
        is_ordinary = not protected and all(map(self.normalizer.is_known, set(line))) and not is_all_caps(line)
        return NormalizedText(line.strip()) if is_ordinary else self.normalizer.normalize(line, protected)

    def _encode_normalized(self, text: str, normalized: NormalizedText) -> EncodedText:
        (pieces,) = self._split_into_pieces([text])
        return EncodedText([_shown(piece) for piece in pieces], self.vocabulary.to_ids(pieces), normalized)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return list(map(_shown, self.vocabulary.to_tokens(ids)))

    def all_tokens(self) -> list[str]:
        return list(self.vocabulary.tokens)

    def decode(self, ids: Sequence[int], unk_replacements: Sequence[str] | None = None) -> str:
        """See `WordCodec.decode`."""
        marked = unk_replacements and [each.replace(" ", SPACE_MARK) for each in unk_replacements]
        pieces = self.vocabulary.to_tokens(ids, marked)
        return self.join_pieces([piece for piece in pieces if piece not in SPECIALS[1:]])

    def _split_into_pieces(self, lines: Sequence[str]) -> list[list[str]]:
        if not self.symbols:
            return self.pieces_of_lines(lines)
        parts = [self._symbol_pattern.split(line.strip()) for line in lines]  # text, symbol, text, …
        texts = iter(self.pieces_of_lines([text for line in parts for text in line[::2]]))
        return [
            [piece for number, part in enumerate(line) for piece in ([part] if number % 2 else next(texts))]
            for line in parts
        ]

    @cached_property
    def _symbol_pattern(self) -> re.Pattern[str]:
        """Matches a target token such as >>fra<< at the beginning of a line only, and other symbols anywhere."""
        targets = set(self.target_languages.values())
        at_first = [r"^>>[^\s<>]+<<"] if targets else []  # an unknown one becomes <unk>
        at_first += [f"^{re.escape(each)}" for each in targets if not each.startswith(">>")]
        anywhere = [re.escape(each) for each in sorted(self.symbols, key=len, reverse=True) if each not in targets]
        return re.compile(f"({'|'.join(at_first + anywhere)})")


@cache
def _warn_no_target(*languages: tuple[str, str]) -> None:
    """Warn, once, that text does not name a target language. languages: code, token."""
    what = "the model translates into several languages: name one with --to (%s), or begin lines with its token (%s)"
    log.warning(what, first_few([code for code, _ in languages]), languages[0][1])


def _shown(piece: str) -> str:
    return piece.replace(SPACE_MARK, " ")


Codec = WordCodec | SubwordCodec


@dataclass(frozen=True)
class Codecs:
    """The codecs of both sides."""

    source: Codec
    target: Codec

    @staticmethod
    def load(folder: Path, data: DataConfig) -> "Codecs":
        """Read what `save` wrote; `data` says what kind of codecs these are. Raises FileError if a file is missing."""
        kind: type[Codec] = WordCodec
        if data.tokens == "subwords":
            kind = ImportedCodec if data.subwords.algorithm == "imported" else SubwordCodec
        source, target = (kind.load(folder, side, data) for side in SIDES)
        return Codecs(source, target).for_target(data.to)

    @property
    def target_languages(self) -> dict[str, str]:
        """The target languages that a source can ask for: code → token; {} for a model with one target language."""
        return {} if isinstance(self.source, WordCodec) else self.source.target_languages

    @cached_property
    def continuation_ids(self) -> frozenset[int]:
        """The ids of target subwords that continue a word."""
        tokens = self.target.tokens(range(len(self.target)))
        are_words = not any(token.startswith(" ") for token in tokens)
        return frozenset(n for n, each in enumerate(tokens) if is_word(each[:1]) and not are_words)

    def for_target(self, language: str | None) -> "Codecs":
        """Returns codecs whose default target token asks for a language. Raises ConfigError for an unknown one."""
        if language is None:
            return self
        token = target_token_of(language, self.target_languages)
        assert not isinstance(self.source, WordCodec), "has no target languages"
        return replace(self, source=self.source.with_default_target(token))

    def save(self, folder: Path) -> None:
        self.source.save(folder, "source")
        self.target.save(folder, "target")


def with_target_of_line(codec: Codec, line: str) -> Codec:
    """Returns the codec with the target token of a line as its default, for the sentences of the line."""
    found = TARGET_TOKEN.match(line.lstrip())
    if found and isinstance(codec, SubwordCodec) and codec.has_target_token(line):
        return codec.with_default_target(found[0])
    return codec


def codec_files(data: DataConfig) -> list[str]:
    """Returns the names of the codecs' files in a dataset or a run with these settings."""
    if data.tokens == "subwords":
        lists = [f"{side}.vocab.txt" for side in SIDES] if data.subwords.algorithm == "imported" else []
        return [*(f"{side}.subwords.model" for side in SIDES), *lists]
    return [*(f"{side}.vocab.txt" for side in SIDES), "target.detokenizer.json"]


def codec_checksums(folder: Path, data: DataConfig) -> dict[str, str]:
    """Returns the checksum of each file of the codecs of a dataset or a run. Raises FileError."""
    return {name: sha256_of_bytes(read_bytes(folder / name)) for name in codec_files(data)}
