"""The config's section `data`: every setting that shapes a dataset, and which of their values fit together."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from transformer_cli.config.section import NAME, Fraction, Positive, Section, Shapes, fields_that_shape, leaves

MULTI30K_LANGUAGES = ("de", "en", "fr", "cs")
CAPTIONS_LANGUAGES = ("de", "en")


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{8}", text):
        raise ValueError(f"{text!r} cannot be a fingerprint; it is the last 8 characters of a dataset's folder")
    return text


class FilePair(Section):
    """The two sides of one split of your own text: plain UTF-8 or .gz, one sentence per line."""

    shapes = Shapes.PLACE

    source: Annotated[Path, Field(strict=False)]
    """file of source sentences"""
    target: Annotated[Path, Field(strict=False)]
    """file of their translations, line by line"""


class CaptionsConfig(Section):
    """Size of the embedded corpus."""

    shapes = Shapes.DATASET

    sentences: Annotated[int, Field(ge=100, le=20_000)] = 12000
    """training pairs: the first so many"""


class SubwordsConfig(Section):
    """How subwords are learned from the training split."""

    shapes = Shapes.CODEC

    size: Annotated[int, Field(ge=8, le=1_000_000)] = 8000
    """ids in a vocabulary, special ones included"""
    algorithm: Literal["bpe", "unigram"] = "bpe"
    """byte-pair encoding (Sennrich et al. 2016), or a unigram language model (Kudo 2018)"""
    dropout: Annotated[Fraction, Shapes.TRAINING] = 0.0
    """cut the training text anew each epoch. bpe: the share of merges that are skipped (Provilkov et al. 2020; usual:
    0.1); unigram: a cut of probability p is drawn in proportion to p^(1 - dropout), so that Kudo's α = 0.2 is 0.8"""


class DataConfig(Section):
    """Everything that shapes a dataset. Different settings make different datasets, side by side."""

    shapes = Shapes.DATASET

    corpus: Literal["multi30k", "files", "captions"] = "multi30k"
    """downloaded, or read from a folder; your own; or embedded, which needs no network"""
    source: Annotated[str, Shapes.CODEC] = "de"
    """the language to translate from, as a spaCy code"""
    target: Annotated[str, Shapes.CODEC] = "en"
    """the language to translate into, as a spaCy code"""
    tokens: Annotated[Literal["words", "subwords"], Shapes.CODEC] = "words"
    """spaCy's words, or pieces of words learned by SentencePiece, with which any text can be written"""
    subwords: SubwordsConfig = SubwordsConfig()
    """with tokens: subwords, how they are learned"""
    lowercase: Annotated[bool | None, Shapes.CODEC] = None
    """lower-case the text; translations come out so, and are scored so (null: words true, subwords false)"""
    min_freq: Annotated[Positive, Shapes.CODEC] = 2
    """with tokens: words, a word seen less often in the training split becomes <unk>"""
    max_words: Annotated[Positive | None, Shapes.CODEC] = None
    """with tokens: words, the most frequent so many words of a vocabulary stay, the others become <unk> (null: all)"""
    joint_vocabulary: Annotated[bool, Shapes.CODEC] = False
    """one vocabulary for both languages (needed to tie all embeddings)"""
    codec: Annotated[Annotated[str, Field(min_length=1)] | None, Shapes.PLACE] = None
    """encode the text with the codecs of this run (a name under runs/, or a folder), instead of learning new ones"""
    skip_empty: bool = False
    """leave out pairs with an empty side, counted in a warning, instead of stopping at the first"""
    files: Annotated[dict[str, FilePair] | None, Shapes.PLACE] = None
    """with corpus: files, the source and the target file for train, for valid and for each test set, under its name:
    {train: {source: a.en, target: a.fr}, valid: {…}, any_test_name: {…}}"""
    captions: CaptionsConfig = CaptionsConfig()
    """with corpus: captions, how much of it"""
    fingerprint: Annotated[Annotated[str, AfterValidator(_fingerprint)] | None, Shapes.TRAINING] = None
    """train on exactly this dataset (null: the newest one with these settings); a run records its dataset here"""

    @property
    def lowercased(self) -> bool:
        """Whether text is lower-cased: `lowercase`, or if that is null, what suits the tokens."""
        return self.tokens == "words" if self.lowercase is None else self.lowercase

    @property
    def of_codecs(self) -> dict[str, Any]:
        """The settings that codecs are made and loaded with, by their dotted keys; only those that are in use."""
        values = self.model_dump(mode="json", include=fields_that_shape(DataConfig, Shapes.CODEC))
        unused = ("data.subwords.",) if self.tokens == "words" else ("data.min_freq", "data.max_words")
        used = {key: value for key, value in leaves(values, "data.") if not key.startswith(unused)}
        return {**used, "data.lowercase": self.lowercased}

    @model_validator(mode="after")
    def _settings_are_of_the_kind_of_tokens(self) -> "DataConfig":
        if self.tokens == "subwords":
            for key, value in (("min_freq", self.min_freq), ("max_words", self.max_words)):
                if value != DataConfig.model_fields[key].default:
                    raise ValueError(f"{key}: {value} applies to words only, but tokens is subwords; take it out")
        if self.tokens == "words":
            for key, value in self.subwords:
                if value != SubwordsConfig.model_fields[key].default:
                    raise ValueError(
                        f"subwords.{key}: {value} is for subwords, but tokens is words; set tokens: subwords"
                    )
        for key, language in (("source", self.source), ("target", self.target)):
            if not NAME.fullmatch(language):
                raise ValueError(f"{key}: {language!r} cannot name a language; give a code such as de or en")
        return self

    @model_validator(mode="after")
    def _languages_and_files(self) -> "DataConfig":
        known = {"multi30k": MULTI30K_LANGUAGES, "captions": CAPTIONS_LANGUAGES}.get(self.corpus)
        if known is not None:
            for key, language in (("source", self.source), ("target", self.target)):
                if language not in known:
                    raise ValueError(
                        f"{key}: {language!r} is not a language of {self.corpus}; it has {', '.join(known)}"
                    )
            if self.source == self.target:
                raise ValueError(f"source and target are both {self.source!r}; choose two languages")
        if self.files is not None and self.corpus != "files":
            raise ValueError(f"files is set, but corpus is {self.corpus}; set corpus: files, or take files out")
        if self.corpus == "files":
            missing = [split for split in ("train", "valid") if split not in (self.files or {})]
            if missing:
                raise ValueError(f"corpus: files needs files.{missing[0]} with a source and a target path")
        for split in self.files or {}:
            if not NAME.fullmatch(split):
                raise ValueError(
                    f"files: {split!r} cannot name a split; use up to 100 letters, digits, '.', '_' and '-'"
                )
        return self
