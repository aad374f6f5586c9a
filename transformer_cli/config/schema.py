"""The typed config: every setting with its type, default and what it affects, and which values fit together.

The docstring under a field is its description, which `tfm config` prints. Reads no file; imports no torch.
"""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from transformer_cli.config.error_messages import first_error_message
from transformer_cli.errors import ConfigError

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
Width = Annotated[int, Field(ge=1, le=1_048_576)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
MAX_NAME_CHARS = 100  # file names contain a name, and are limited to 255 bytes
MAX_LINE_CHARS = 4_000  # of text: attention takes memory and time for each pair of tokens
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}")


def _text(pattern: str, otherwise: str) -> Any:
    """The type of text that matches a pattern. otherwise: what the error says after text that does not match."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} {otherwise}")
        return text

    return AfterValidator(check)


def _text_or_ids(value: object) -> str | tuple[int, ...]:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(type(each) is int for each in value):
        return tuple(value)
    raise ValueError(f"must be text or token ids, not {value!r}")


_NAMES = "use up to 100 letters, digits, '.', '_' and '-'"
RunName = Annotated[str, _text(rf"(?!latest$){NAME.pattern}", f"cannot name a run; {_NAMES}, and not 'latest'")]
SplitName = Annotated[str, _text(NAME.pattern, f"cannot name a split; {_NAMES}")]
LANGUAGE = "[a-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,9}"
Language = Annotated[str, _text(LANGUAGE, "is not a code of a language, such as de or pt-BR")]
Symbol = Annotated[str, _text(r"[^\s▁]{1,100}", "is not a symbol: up to 100 characters without spaces")]
Fingerprint = Annotated[str, _text("[0-9a-f]{8}", "is not the last 8 characters of a dataset's folder")]
Device = Annotated[str, _text(r"auto|cpu|cuda(:\d{1,9})?", "is not a device; choose auto, cpu, cuda or cuda:N")]
NameOrPath = Annotated[str, Field(min_length=1)]  # a file, a folder, or the name of a run or split
ModelPart = Literal["source_embedding", "target_embedding", "encoder", "decoder", "output"]
OnTooLong = Literal["stop", "blank", "copy", "truncate"]
"""What to do with a line that is too long: stop with an error, or return "", the line, or a truncated translation"""
CORPUS_LANGUAGES = {"multi30k": ("de", "en", "fr", "cs"), "captions": ("de", "en")}


INTERNAL_KEYS = {"data.fingerprint", "model.start_token", "imported", "marian"}
"""keys and values for a run's own config.yaml: `tfm config` prints them only if they differ from the defaults"""


class Affects(Enum):
    """What a setting affects, and so whether it may change: declared by its section, or by its own annotation."""

    DATASET = "the dataset"
    CODEC = "the dataset and its codecs"
    MODEL = "the shapes of the weights, and the computation"
    TRAINING = "the course of training: a resumed run must keep it"
    LOCATION = "where a file or run is: of data.files, a resumed run accepts other paths to the same content"
    NOTHING = "nothing that must stay the same: a resumed run takes the new value"


class Section(BaseModel):
    """A section of the config. Strict and frozen: unknown keys and values of other types are errors."""

    affects: ClassVar[Affects]
    """what its fields affect, unless their annotation says otherwise"""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    def __init_subclass__(cls, *, affects: Affects) -> None:
        cls.affects = affects

    def __setattr__(self, name: str, value: object) -> None:
        """Raises ConfigError."""
        example = 'load_config("demo", training={"epochs": 1})'
        raise ConfigError(f"{name}: a config cannot be changed; load it with other settings, as in {example}")


class FilePair(Section, affects=Affects.LOCATION):
    """The two files of a parallel text: UTF-8, plain or packed (.gz, .bz2, .xz), one sentence per line."""

    source: Annotated[Path, Field(strict=False)]
    """file of the source sentences"""
    target: Annotated[Path, Field(strict=False)]
    """file of their translations, line by line"""


Text = Annotated[
    Annotated[FilePair, Tag("[pair]")] | Annotated[Path, Field(strict=False), Tag("[file]")],
    Discriminator(lambda value: "[file]" if isinstance(value, str | Path) else "[pair]"),
]
Texts = Annotated[
    Annotated[Text, Tag("[text]")] | Annotated[tuple[Text, ...], Field(strict=False, min_length=1), Tag("[list]")],
    Discriminator(lambda value: "[list]" if isinstance(value, list | tuple) else "[text]"),
]
"""The text of a split: two aligned files, one file with both sides, or a list of such"""
Rule = Literal["empty", "encoding", "copies", "markup", "length", "duplicates", "held_out", "language"]
Column = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    _text("(?!0*$).+", "is not a column; give its name, or its number counted from 1"),
]


class HeldOutConfig(Section, affects=Affects.DATASET):
    """Splits held out from the training text. Pairs with the same source or target are held out together."""

    valid: Annotated[float, Field(ge=0.0, le=0.4)] = 0.0
    """share of the training text to hold out as valid; a hash chooses the pairs, so that hardly any changes when the
    text grows"""
    test: Annotated[float, Field(ge=0.0, le=0.4)] = 0.0
    """likewise for test"""


class CaptionsConfig(Section, affects=Affects.DATASET):
    """How much of the embedded corpus to use."""

    sentences: Annotated[int, Field(ge=100, le=20_000)] = 12000
    """number of training pairs, from the first on"""


class SubwordsConfig(Section, affects=Affects.CODEC):
    """How subwords are learned from the training split (with tokens: subwords)."""

    vocab_size: Annotated[int, Field(ge=8, le=1_000_000)] = 8000
    """size of a vocabulary, special tokens included"""
    algorithm: Literal["bpe", "unigram", "imported"] = "bpe"
    """byte-pair encoding (Sennrich et al. 2016) or a unigram language model (Kudo 2018)"""
    user_defined_symbols: Annotated[tuple[Symbol, ...], Field(strict=False)] = ()
    """strings that are always one token, such as [">>fra<<", ">>spa<<"], which tell a model the target language"""


class DataConfig(Section, affects=Affects.DATASET):
    """What a dataset is made from. Other settings make another dataset beside it."""

    corpus: Literal["multi30k", "files", "captions", "pairs", "imported"] = "multi30k"
    """multi30k is downloaded; files are your own; captions come with tfm; pairs are given in Python (`prepare`)"""
    source: Annotated[Language, Affects.CODEC] = "de"
    """source language, as a spaCy code"""
    target: Annotated[Language, Affects.CODEC] = "en"
    """target language, as a spaCy code"""
    to: Language | None = None
    """with several target languages: the language whose token begins each line that has none (null: no token)"""
    both_directions: bool = False
    """also train on each pair in the other direction (Johnson et al. 2017); sets `to` and the symbols of both languages
    (with tokens: subwords)"""
    tokens: Annotated[Literal["words", "subwords", "spaces"], Affects.CODEC] = "words"
    """words as spaCy splits them; subwords as SentencePiece learns them, which can encode any text; spaces: what stands
    between spaces, for text that another program has cut"""
    joiner: Annotated[Literal["@@", "##", "￭", "▁"] | None, Affects.CODEC] = None
    """with tokens: spaces, the mark of parts of words, which are joined in translations and for scores: H@@ und,
    H ##und, H ￭und or ▁H und (null: none)"""
    subwords: SubwordsConfig = SubwordsConfig()
    """how subwords are learned (with tokens: subwords)"""
    lowercase: Annotated[bool | None, Affects.CODEC] = None
    """lower-case the text, translations and scores (null: true for words, else false)"""
    min_freq: Annotated[Positive, Affects.CODEC] = 2
    """with tokens: words or spaces, rarer words of the training split become <unk>"""
    max_words: Annotated[Positive | None, Affects.CODEC] = None
    """with tokens: words or spaces, keep only this many of the most frequent words (null: all)"""
    joint_vocabulary: Annotated[bool, Affects.CODEC] = False
    """one vocabulary for both languages (needed for tie_embeddings: all)"""
    tokenizer_from: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """use the tokenizers and vocabularies of this run (a name under runs/, or a folder) instead of learning new ones"""
    skip_empty: bool = False
    """leave out pairs with an empty side instead of stopping with an error"""
    files: Annotated[dict[SplitName, Texts] | None, Affects.LOCATION] = None
    """with corpus: files, the text of each split (train, valid and any test sets): a source and a target file, a TMX,
    XLIFF, .po, TSV, CSV or JSON lines file, or a list of these. Example: {train: [{source: a.en, target: a.fr}, b.tmx,
    c.tsv], valid: {…}, my_test: {…}}"""
    columns: Annotated[tuple[Column, Column], Field(strict=False)] | None = None
    """names or numbers of the source and target columns of tables and JSON lines, such as [2, 3] (null: those that a
    heading names, else the first two)"""
    clean: Annotated[tuple[Rule, ...], Field(strict=False)] = ()
    """rules that leave out training pairs: any of empty, encoding, copies, markup, length, duplicates, held_out,
    language"""
    allow_keys: Annotated[bool, Affects.NOTHING] = False
    """accept text of which most are keys, such as edit.save.title, instead of stopping with an error"""
    max_chars: Annotated[int, Field(ge=1, le=MAX_LINE_CHARS)] = MAX_LINE_CHARS
    """training pairs with a side of more characters than this are left out"""
    held_out: HeldOutConfig = HeldOutConfig()
    """shares of the training text for splits without files"""
    captions: CaptionsConfig = CaptionsConfig()
    """how much of the embedded corpus to use (with corpus: captions)"""
    fingerprint: Annotated[Fingerprint | None, Affects.TRAINING] = None
    """hash of the dataset to train on (null: the newest one with these settings); a run records its own here"""

    @property
    def input_language(self) -> str:
        """The language of sources: `target`, if a model of two directions is to translate back into `source`."""
        return self.target if self.to == self.source else self.source

    @property
    def output_language(self) -> str:
        """The language of translations."""
        return self.to or self.target

    @property
    def texts(self) -> Iterator[tuple[str, Path]]:
        """Yields a name for the record, such as train.source, test.1 or test.2.target, and the path of each file."""
        for split, texts in (self.files or {}).items():
            for number, text in enumerate(texts if isinstance(texts, tuple) else (texts,), start=1):
                place = f"{split}.{number}" if isinstance(texts, tuple) or isinstance(text, Path) else split
                if isinstance(text, FilePair):
                    yield from ((f"{place}.source", text.source), (f"{place}.target", text.target))
                else:
                    yield place, text

    @property
    def lowercased(self) -> bool:
        """Whether text is lower-cased: `lowercase`, or if that is null, the default for the tokens."""
        return self.tokens == "words" if self.lowercase is None else self.lowercase

    @property
    def codec_settings(self) -> dict[str, Any]:
        """The settings with which codecs are made and loaded, by dotted key; only those that are in use."""
        values = self.model_dump(mode="json", include=fields_affecting(DataConfig, Affects.CODEC))
        used = {key: value for key, value in values.items() if self.uses(key)}
        return {**dict(flatten(used, "data.")), "data.lowercase": self.lowercased}

    def uses(self, key: str) -> bool:
        """Whether a setting has an effect with this corpus and these tokens."""
        other, value = USED_WITH.get(key, ("tokens", self.tokens))
        return getattr(self, other) in value.split(" or ")

    @model_validator(mode="after")
    def _check_values(self) -> "DataConfig":
        for key, (other, value) in USED_WITH.items():
            is_default = getattr(self, key) == DataConfig.model_fields[key].default
            if not (self.uses(key) or is_default or key == "captions"):  # whose size is harmless elsewhere
                but = f"{other} is {getattr(self, other)}; take it out, or change {other}"
                raise ValueError(f"{key}: it applies to {other}: {value}, but {but}")
        if self.skip_empty and self.corpus == "pairs":
            raise ValueError("skip_empty: it applies to corpus: files, but corpus is pairs; take it out")
        if self.both_directions:
            if self.to not in (None, self.target):
                raise ValueError(f"both_directions: it sets to: {self.target}, not {self.to}; take one of them out")
            symbols = (*self.subwords.user_defined_symbols, f"<2{self.source}>", f"<2{self.target}>")
            subwords = self.subwords.model_copy(update={"user_defined_symbols": tuple(dict.fromkeys(symbols))})
            self.__dict__.update(to=self.target, subwords=subwords)
        if self.corpus == "files":
            given = self.files or {}
            for split, share in self.held_out:
                if share and split in given:
                    raise ValueError(
                        f"held_out.{split}: {share}, but {split} has files of its own; take one of them out"
                    )
            if "train" not in given:
                raise ValueError("corpus: files needs files.train with a source and a target path")
            if "valid" not in given and not self.held_out.valid:
                raise ValueError(
                    "corpus: files needs files.valid with a source and a target path, or held_out.valid: 0.01, a share "
                    "of train"
                )
        known = CORPUS_LANGUAGES.get(self.corpus, ())
        for key, language in (("source", self.source), ("target", self.target)):
            if known and language not in known:
                raise ValueError(f"{key}: {language!r} is not a language of {self.corpus}; it has {', '.join(known)}")
        if known and self.source == self.target:
            raise ValueError(f"source and target are both {self.source!r}; choose two languages")
        return self


USED_WITH = {  # setting of data → the setting, and its value, without which it has no effect
    **dict.fromkeys(("files", "columns", "clean", "allow_keys", "max_chars", "held_out"), ("corpus", "files")),
    **dict.fromkeys(("min_freq", "max_words"), ("tokens", "words or spaces")),
    "captions": ("corpus", "captions"),
    "joiner": ("tokens", "spaces"),
    "both_directions": ("tokens", "subwords"),
    "subwords": ("tokens", "subwords"),
}


class VectorsConfig(Section, affects=Affects.TRAINING):
    """Pretrained word vectors for the embeddings, in text files."""

    source: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """file of vectors for the source embedding, relative to the config's folder"""
    target: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """likewise for the target embedding"""
    freeze: bool = False
    """do not train these vectors; words without a vector are still trained"""

    @model_validator(mode="after")
    def _check_freeze(self) -> "VectorsConfig":
        if self.freeze and self.source is None and self.target is None:
            raise ValueError("freeze: true needs vectors; name them as source or target, or set freeze: false")
        return self


class ModelConfig(Section, affects=Affects.MODEL):
    """The Transformer (Vaswani et al. 2017, section 3); the defaults are the tutorials' small model."""

    d_model: Width = 256
    """width of the embeddings and of each layer's input and output"""
    num_heads: Annotated[int, Field(ge=1, le=1024)] = 8
    """attention heads"""
    head_dim: Width | None = None
    """width of a head's queries, keys and values (null: d_model / num_heads)"""
    num_encoder_layers: Layers = 3
    """encoder layers"""
    num_decoder_layers: Layers = 3
    """decoder layers"""
    d_ff: Width = 512
    """inner width of the position-wise feed-forward network"""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """activation function of the feed-forward network"""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each residual sum (the paper), or before each sublayer"""
    final_norm: bool = False
    """one more LayerNorm at the end of both stacks (usual with norm: pre)"""
    start_token: bool = True
    """whether <sos> is an ordinary token. False as in Marian: the source has no <sos>, the target begins with its
    vector (zero in Marian), and <pad> and <sos> are never predicted"""
    positions: Literal["learned", "sinusoidal", "marian", "rotary"] = "learned"
    """position vectors: a learned table, or the sines and cosines of the paper; rotary: none, but queries and keys are
    rotated (Su et al. 2021)"""
    max_length: Annotated[int, Field(ge=3, le=1_000_000)] | None = 100
    """maximum length of a sentence in tokens, <sos> and <eos> included (null: no limit; not with positions: learned)"""
    scale_embeddings: bool = True
    """multiply token embeddings by √d_model (section 3.4)"""
    tie_embeddings: Literal["none", "target+output", "all"] = "none"
    """which matrices are shared: target embedding and output projection, or all three with the source embedding"""
    qkv_bias: bool = True
    """biases in the query, key and value projections"""
    dropout: Annotated[Fraction, Affects.TRAINING] = 0.1
    """dropout on the embeddings and on each sublayer's output"""
    attention_dropout: Annotated[Fraction | None, Affects.TRAINING] = None
    """dropout on the attention weights (null: as dropout)"""
    activation_dropout: Annotated[Fraction | None, Affects.TRAINING] = None
    """dropout after the activation of the feed-forward network (null: as dropout)"""
    embedding_init: Annotated[Literal["xavier", "normal"], Affects.TRAINING] = "xavier"
    """initial embeddings: Xavier-uniform, or N(0, 1/d_model) as in the paper's code"""
    vectors: VectorsConfig = VectorsConfig()
    """pretrained initial vectors of the embeddings; usually with scale_embeddings: false, since × √d_model is meant for
    random vectors, which are some 20 times smaller"""

    @property
    def pretrained(self) -> dict[str, str]:
        """Side → file of the vectors for its embedding; only one side if both embeddings share one matrix."""
        sides = {"source": self.vectors.source, "target": self.vectors.target}
        given = {side: where for side, where in sides.items() if where is not None}
        if self.tie_embeddings == "all" and len(given) == 2:
            del given["target"]
        return given

    @property
    def has_position_table(self) -> bool:
        """Whether position vectors are weights, so that there is a last position."""
        return self.positions == "learned"

    @model_validator(mode="after")
    def _check_shapes(self) -> "ModelConfig":
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide d_model {self.d_model}; choose a divisor, or set head_dim"
            )
        if self.max_length is None and self.has_position_table:
            raise ValueError(
                "max_length: null does not go with positions: learned; a learned table has a last position"
            )
        key, width = "d_model", self.d_model
        if self.positions == "rotary":
            key, width = "head_dim", self.head_dim or self.d_model // self.num_heads
        if self.positions != "learned" and width % 2:
            raise ValueError(f"{key}: {self.positions} positions come in pairs of sine and cosine; {width} is odd")
        source, target = self.vectors.source, self.vectors.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError("vectors: both embeddings are one matrix (tie_embeddings: all); give source or target")
        return self


class TrainingConfig(Section, affects=Affects.TRAINING):
    """How a run is trained (section 5)."""

    epochs: Annotated[Positive, Affects.NOTHING] = 10
    """passes over the training split"""
    max_steps: Annotated[Positive | None, Affects.NOTHING] = None
    """optimiser steps after which training ends, instead of `epochs` (null: epochs decide)"""
    validate_every: Annotated[Positive | None, Affects.NOTHING] = None
    """steps between validations (null: validate after each epoch); the last step is always followed by one"""
    batch_size: Positive = 128
    """sentences or target tokens per batch (see batch_by)"""
    batch_by: Literal["sentences", "tokens"] = "sentences"
    """unit of batch_size; tokens are target tokens without padding"""
    batch_order: Literal["random", "bucketed"] = "random"
    """random batches, or batches of sentences of similar length (faster, but slightly worse)"""
    gradient_accumulation_steps: Positive = 1
    """batches per optimiser step; their gradients are summed as if they were one batch"""
    optimizer: Literal["adam", "muon"] = "adam"
    """adam for all weights, or muon (Jordan et al. 2024) for the layers' matrices and adam for the others"""
    learning_rate: Annotated[float, Field(gt=0.0)] = 5e-4
    """peak of the schedule (cosine with warm-up stays slightly below it: both begin at the first step)"""
    muon_learning_rate: Annotated[float, Field(gt=0.0)] = 0.02
    """Muon's peak rate, on the same schedule: roughly the length by which a step moves W·x if x has length 1"""
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "constant"
    """inverse_sqrt: lr·min(step/warmup, √(warmup/step)) (eq. 3); cosine: lr·½(1 + cos π·progress), from lr to 0 at the
    end, so that epochs or max_steps cannot change later"""
    warmup_steps: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """steps of linear warm-up (with any schedule)"""
    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = (0.9, 0.999)
    """Adam's decay rates"""
    eps: Annotated[float, Field(ge=1e-30, le=1.0)] = 1e-8
    """Adam's epsilon"""
    label_smoothing: Fraction = 0.0
    """share of each target's probability that is spread over the vocabulary (section 5.4)"""
    consistency: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """α of R-Drop (Liang et al. 2021): a step reads its batch twice with different dropout, which takes twice as long,
    and the loss is higher where the two predictions differ (0: no)"""
    clip_grad_norm: Annotated[float, Field(gt=0.0, le=1e9)] | None = 1.0
    """maximum norm of the whole gradient (null: no clipping)"""
    best_checkpoint_metric: Literal["loss", "bleu", "chrf", "last"] = "loss"
    """what decides which checkpoint is best: the validation loss, or BLEU or chrF of greedy translations (slower);
    last: the last one, whatever its loss, for few validation pairs"""
    patience: Annotated[Positive | None, Affects.NOTHING] = None
    """stop after this many validations without a new best (null: never)"""
    average_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = None
    """at the end, average the weights of this many last validations and validate the mean (section 6.1; null: no)"""
    initialize_from: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """fine-tuning: start from the best weights of this run (a name under runs/, or a folder) instead of random ones"""
    extra_valid: Annotated[tuple[NameOrPath, ...], Field(strict=False), Affects.LOCATION] = ()
    """with initialize_from, further validation text, e.g. of the old domain, to detect forgetting: files of pairs,
    the name of a split of the dataset, or a run, whose validation split it is"""
    replay: Annotated[tuple[NameOrPath, ...], Field(strict=False), Affects.LOCATION] = ()
    """with initialize_from, text for half of each epoch: files or a split as in extra_valid, a run (its
    training split), or a file of source sentences, which is first translated by the initial model"""
    interpolation: Fraction | None = None
    """with extra_valid, the share a of the initial weights in the final ones, (1 - a)·finetuned + a·initial (null: the
    one with the lowest sum of both validation losses)"""
    freeze: Annotated[tuple[ModelPart, ...], Field(strict=False)] = ()
    """parts of the model that are not trained: any of source_embedding, target_embedding, encoder, decoder, output; a
    matrix shared with one of them is not trained either"""
    save_minutes: Annotated[float, Field(gt=0.0, le=1e6), Affects.NOTHING] = 10
    """minutes between checkpoints: the most that a crash can lose"""
    examples: Annotated[int, Field(ge=0, le=1000), Affects.NOTHING] = 0
    """number of validation sentences that are translated after each validation, for the log and the history"""
    tensorboard: Annotated[bool, Affects.NOTHING] = False
    """also write the history as a TensorBoard event file (needs the extra `tensorboard`)"""
    seed: Seed = 0
    """random seed of initialisation, batches and dropout"""
    precision: Annotated[Literal["auto", "float32", "bfloat16"], Affects.NOTHING] = "auto"
    """precision of matrix products; auto: bfloat16 autocast on hardware that is fast at it, else float32"""
    device: Annotated[Device, Affects.NOTHING] = "auto"
    """auto, cpu, cuda or cuda:N"""
    shards: Annotated[int, Field(ge=1, le=64)] | None = None
    """on the CPU, the number of shards into which a process splits each batch, one thread for each; it changes the
    last digits of the weights (null: one per core, at most 8, fixed when the run begins)"""
    num_threads: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Affects.NOTHING] = None
    """CPU threads (null: torch's choice); training uses at most one per shard"""

    @property
    def needs_horizon(self) -> bool:
        """Whether learning rates depend on the planned end of training, so that a resumed run may not change it."""
        return self.schedule not in ("constant", "inverse_sqrt")

    @property
    def needs_scores(self) -> bool:
        """Whether scores of translations decide which checkpoint is best."""
        return self.best_checkpoint_metric in ("bleu", "chrf")

    @property
    def end(self) -> tuple[Literal["steps", "epochs"], int]:
        """The unit in which training is limited, and the limit."""
        return ("epochs", self.epochs) if self.max_steps is None else ("steps", self.max_steps)

    @property
    def end_key(self) -> Literal["max_steps", "epochs"]:
        """The setting that limits training."""
        return "epochs" if self.max_steps is None else "max_steps"

    def num_steps(self, n_batches: int) -> int:
        """Returns the number of optimiser steps for this many batches of an epoch."""
        return -(-n_batches // self.gradient_accumulation_steps)

    @model_validator(mode="after")
    def _check_schedule(self) -> "TrainingConfig":
        if self.schedule == "inverse_sqrt" and self.warmup_steps == 0:
            raise ValueError("warmup_steps: schedule inverse_sqrt needs at least 1")
        for key in ("extra_valid", "replay"):
            if getattr(self, key) and self.initialize_from is None:
                raise ValueError(f"{key}: needs a run to fine-tune; name it with initialize_from")
        if self.interpolation is not None and not self.extra_valid:
            raise ValueError(
                f"interpolation: {self.interpolation} needs text that shows its effect; name it with extra_valid"
            )
        if self.patience is not None and self.best_checkpoint_metric == "last":
            raise ValueError(
                "patience: the last validation is always the best one; choose best_checkpoint_metric: loss"
            )
        unit, number = self.end
        interval = self.validate_every if unit == "steps" else None if self.validate_every else 1
        n_validations = -(-number // interval) if interval else None  # None: depends on the dataset
        if self.average_checkpoints and n_validations and self.average_checkpoints > n_validations:
            raise ValueError(
                f"average_checkpoints: {self.average_checkpoints}, but the number of validations is {n_validations}; "
                "lower it, set it to null, or validate more often"
            )
        return self


class DecodingConfig(Section, affects=Affects.NOTHING):
    """How translations are decoded; the default is greedy search. A run keeps these settings; --set overrides them."""

    beam_size: Annotated[int, Field(ge=1, le=1000)] = 1
    """number of hypotheses in beam search (1: greedy search)"""
    length_penalty: Annotated[float, Field(ge=0.0, le=5.0)] = 1.0
    """α: hypotheses are ranked by log p / length^α, <eos> counted (0: by log p, which prefers short ones)"""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=10_000)] = 0
    """no sequence of this many tokens occurs twice in a translation (0: no limit)"""
    sample: bool = False
    """sample tokens at random instead of searching for the likeliest translation"""
    temperature: Annotated[float, Field(ge=0.001, le=1000.0)] = 1.0
    """with sample: divide the logits by this; below 1, likely tokens become likelier"""
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """with sample: choose among this many likeliest tokens (0: all)"""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """with sample: choose among the likeliest tokens with this total probability (Holtzman et al. 2020; 1: all)"""
    seed: Seed = 0
    """with sample: random seed"""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """precision of matrix products; auto: bfloat16 on hardware that is fast at it, which changes a few words. Exported
    models have a precision of their own"""

    @model_validator(mode="after")
    def _check_search(self) -> "DecodingConfig":
        if self.sample and self.beam_size > 1:
            raise ValueError(
                f"sample: true draws tokens at random, but a beam of {self.beam_size} searches for the likeliest; "
                "set beam_size: 1 or sample: false"
            )
        return self

    @property
    def describe(self) -> str:
        """The search in words: "greedy", "samples" or "beam 6, length penalty 1", with further limits."""
        words = "samples" if self.sample else "greedy"
        if self.beam_size > 1:
            words = f"beam {self.beam_size}, length penalty {self.length_penalty:g}"
        return words + (f", no {self.no_repeat_ngram_size} tokens twice" if self.no_repeat_ngram_size else "")


class TranslationSettings(DecodingConfig, affects=Affects.NOTHING):
    """How text is translated: the decoding settings, and options for the text that goes in and comes out.

    The command line, the server and `Translator.with_options` use these names.
    """

    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """maximum number of tokens in a translation, <eos> not counted (null: 2 × source + 10)"""
    n_best: Annotated[int, Field(ge=1)] = 1
    """number of translations of each sentence: the best ones of the beam, or samples"""
    return_scores: bool = True
    """return log-probabilities; if false, greedy search may skip them (NaN)"""
    return_attention: bool = True
    """return alignments; if false, an exported model finds them for unknown words only"""
    keep_unk: bool = False
    """keep `<unk>` in the text instead of copying the source word with the most attention"""
    on_too_long: OnTooLong = "stop"
    """what to do with a line that is too long"""
    prefix: Annotated[str | tuple[int, ...], PlainValidator(_text_or_ids)] = ""
    """text or token ids with which each translation begins, unless its line has no letter"""
    split_sentences: bool = False
    """translate the sentences of a line one by one, and keep the white space between them"""
    protect: bool = True
    """copy placeholders ({name}, %s), URLs and e-mail addresses unchanged"""
    protect_pattern: str = ""
    """also copy unchanged each match of this regular expression"""
    glossary: dict[str, str] = Field(default_factory=dict)
    """word or phrase → its fixed translation, as from `api.read_glossary`"""
    fuzzy: bool = False
    """flag translated messages of a catalogue as fuzzy, instead of a comment that names machine translation"""
    renew: bool = False
    """in catalogues and XLIFF, replace machine translations that nobody has touched"""
    front_matter: str = ""
    """keys in the front matter of Markdown that are translated besides title and description, with commas between"""
    any_language: bool = False
    """translate catalogues and XLIFF even if they name languages other than the run's"""

    @property
    def rows_per_sentence(self) -> int:
        """The number of hypotheses decoded in parallel for each sentence."""
        return self.n_best if self.sample else self.beam_size

    @field_validator("n_best")
    @classmethod
    def _check_n_best(cls, n_best: int, others: ValidationInfo) -> int:
        beam_size = others.data.get("beam_size", 1)
        if not others.data.get("sample") and n_best > beam_size:
            raise ValueError(f"beam_size is only {beam_size}; raise it to {n_best}")
        return n_best


class Config(Section, affects=Affects.NOTHING):
    """All settings of a run."""

    name: RunName | None = None
    """name of the run's folder under runs/ (null: corpus and languages, such as multi30k or captions.de-en)"""
    data: DataConfig = DataConfig()
    """the parallel text"""
    model: ModelConfig = ModelConfig()
    """the Transformer"""
    training: TrainingConfig = TrainingConfig()
    """how the model is trained"""
    decoding: DecodingConfig = DecodingConfig()
    """how translations are decoded"""

    @property
    def run_name(self) -> str:
        """The run's folder under runs/: `name`, else corpus and languages (the corpus alone for default languages)."""
        if self.name is not None:
            return self.name
        data, default = self.data, DataConfig()
        if (data.corpus, data.source, data.target) == (default.corpus, default.source, default.target):
            return data.corpus
        return f"{data.corpus}.{data.source}-{data.target}"[:MAX_NAME_CHARS]

    @model_validator(mode="after")
    def _check_sections(self) -> "Config":
        model, training = self.model, self.training
        if model.pretrained and self.data.tokens == "subwords":
            raise ValueError("model.vectors: word vectors do not fit data.tokens: subwords; take one of them out")
        if model.tie_embeddings == "all" and not self.data.joint_vocabulary:
            raise ValueError(
                "model.tie_embeddings: all needs one vocabulary for source and target; set data.joint_vocabulary: true"
            )
        if training.initialize_from is not None and model.pretrained:
            raise ValueError(
                "training.initialize_from: its embeddings would replace model.vectors; set only one of the two"
            )
        if training.consistency and not (model.dropout or model.attention_dropout or model.activation_dropout):
            raise ValueError("training.consistency: without dropout, two readings are the same; set model.dropout")
        frozen: set[str] = set(training.freeze)
        if "output" in frozen and not model.has_position_table:  # then tied embeddings have no weights of their own
            frozen |= {"target_embedding"} if model.tie_embeddings != "none" else set()
            frozen |= {"source_embedding"} if model.tie_embeddings == "all" else set()
        if frozen == set(get_args(ModelPart)):
            raise ValueError("training.freeze: every part is frozen, so nothing can be learned; leave one out")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _raise_config_error(cls, given: Any, validate: Any, about: ValidationInfo) -> Any:
        """Turns a ValidationError into a ConfigError. `about.context` has arguments of `first_error_message`."""
        try:
            return validate(given)
        except ValidationError as error:
            raise ConfigError(first_error_message(error, cls().model_dump(), **(about.context or {}))) from None


def fields_affecting(section: type[Section], *kinds: Affects) -> dict[str, Any]:
    """Returns the fields of a section that affect one of `kinds`, as model_dump's `include` takes them.

    A field that is itself a section is a mapping of such fields; it is absent if there are none.
    """
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            found |= {name: below} if (below := fields_affecting(inner, *kinds)) else {}
        elif next((mark for mark in field.metadata if isinstance(mark, Affects)), section.affects) in kinds:
            found[name] = True
    return found


def keys_affecting(*kinds: Affects) -> set[str]:
    """Returns the dotted keys of the settings that affect one of `kinds`."""
    return {key for key, _ in flatten(fields_affecting(Config, *kinds))}


def flatten(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted key and the value of each leaf of a tree of mappings."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
