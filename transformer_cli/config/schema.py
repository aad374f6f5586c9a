"""The typed config tree: every key, its type, its default, what it decides, and which values fit together.

The docstring under a field is its description, from which `tfm config` and configs/multi30k.yaml are written. Reads no
file; imports no torch.
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
MAX_NAME_CHARS = 100  # characters: file names are made of it, and may have 255 bytes
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}")


def _text(pattern: str, otherwise: str) -> Any:
    """Text of a pattern. otherwise: what is said of other text, after the text itself."""

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
    raise ValueError(f"must be text, or ids of tokens, not {value!r}")


_NAMES = "use up to 100 letters, digits, '.', '_' and '-'"
RunName = Annotated[str, _text(rf"(?!latest$){NAME.pattern}", f"cannot name a run; {_NAMES}, and not 'latest'")]
SplitName = Annotated[str, _text(NAME.pattern, f"cannot name a split; {_NAMES}")]
LANGUAGE = "[a-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,9}"
Language = Annotated[str, _text(LANGUAGE, "is not a code of a language, such as de or pt-BR")]
Symbol = Annotated[str, _text(r"[^\s▁]{1,100}", "is not a symbol: up to 100 characters without spaces")]
Fingerprint = Annotated[str, _text("[0-9a-f]{8}", "is not the last 8 characters of a dataset's folder")]
Device = Annotated[str, _text(r"auto|cpu|cuda(:\d{1,9})?", "is not a device; choose auto, cpu, cuda or cuda:N")]
NameOrPath = Annotated[str, Field(min_length=1)]  # a file, a folder, or the name of something that lies elsewhere
ModelPart = Literal["source_embedding", "target_embedding", "encoder", "decoder", "output"]
OnTooLong = Literal["stop", "blank", "copy", "truncate"]
"""What becomes of a line that is too long: an error, an empty line, the line itself, or its beginning's translation"""
CORPUS_LANGUAGES = {
    "multi30k": ("de", "en", "fr", "cs"),
    "captions": ("de", "en"),
}  # of corpora that are not the user's


INTERNAL_KEYS = {"data.fingerprint", "model.start_token", "imported", "marian"}
"""keys and values that a run's own config.yaml records, and no user has to know: `tfm config` does not offer them"""


class Affects(Enum):
    """What a setting decides, and with that where it may be another one.

    A section says it for its fields; a field that differs has its own in its annotation.
    """

    DATASET = "a dataset"
    CODEC = "a dataset, and the codecs that it is encoded with"
    MODEL = "the weights: their number and shapes, and what is computed with them"
    TRAINING = "the course of training: a run keeps it"
    LOCATION = "nothing: it says where something is. A resumed run knows files and vectors again that were moved"
    NOTHING = "nothing that must stay: a resumed run takes the new value"


class Section(BaseModel):
    """Strict and frozen: unknown keys and values of another type are errors, and nothing changes after loading."""

    affects: ClassVar[Affects]
    """what its fields decide, except for those that say otherwise"""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    def __init_subclass__(cls, *, affects: Affects) -> None:
        cls.affects = affects


class FilePair(Section, affects=Affects.LOCATION):
    """The two sides of a text of your own: plain UTF-8, .gz, .bz2 or .xz, one sentence per line."""

    source: Annotated[Path, Field(strict=False)]
    """file of source sentences"""
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
Rule = Literal["empty", "copies", "markup", "length", "duplicates", "held_out", "language"]
Column = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    _text("(?!0*$).+", "is not a column; give its name, or its number counted from 1"),
]


class HeldOutConfig(Section, affects=Affects.DATASET):
    """Held-out splits that are made from the training text: which pairs, a hash of their source sentences decides."""

    valid: Annotated[float, Field(ge=0.0, le=0.4)] = 0.0
    """the share of the training text that is valid instead; the same sentences stay held out when the text grows"""
    test: Annotated[float, Field(ge=0.0, le=0.4)] = 0.0
    """likewise for test"""


class CaptionsConfig(Section, affects=Affects.DATASET):
    """Size of the embedded corpus."""

    sentences: Annotated[int, Field(ge=100, le=20_000)] = 12000
    """how many training pairs are used, counted from the first"""


class SubwordsConfig(Section, affects=Affects.CODEC):
    """How subwords are learned from the training split."""

    vocab_size: Annotated[int, Field(ge=8, le=1_000_000)] = 8000
    """ids in a vocabulary, special ones included"""
    algorithm: Literal["bpe", "unigram", "imported"] = "bpe"
    """byte-pair encoding (Sennrich et al. 2016), or a unigram language model (Kudo 2018)"""
    user_defined_symbols: Annotated[tuple[Symbol, ...], Field(strict=False)] = ()
    """what is one token wherever it stands, such as [">>fra<<", ">>spa<<"], with which a source says its target"""


class DataConfig(Section, affects=Affects.DATASET):
    """Everything that decides a dataset. Different settings make different datasets, side by side."""

    corpus: Literal["multi30k", "files", "captions", "pairs", "imported"] = "multi30k"
    """downloaded, or read from a folder; your own; embedded, which needs no network; or given in Python
    (`prepare`'s pairs)"""
    source: Annotated[Language, Affects.CODEC] = "de"
    """the language to translate from, as a spaCy code"""
    target: Annotated[Language, Affects.CODEC] = "en"
    """the language to translate into, as a spaCy code"""
    to: Language | None = None
    """of a model of several targets, the one that each line asks for which has no token of its own (null: none)"""
    tokens: Annotated[Literal["words", "subwords"], Affects.CODEC] = "words"
    """spaCy's words, or pieces of words learned by SentencePiece, with which any text can be written"""
    subwords: SubwordsConfig = SubwordsConfig()
    """with tokens: subwords, how they are learned"""
    lowercase: Annotated[bool | None, Affects.CODEC] = None
    """lower-case the text; translations come out so, and are scored so (null: words true, subwords false)"""
    min_freq: Annotated[Positive, Affects.CODEC] = 2
    """with tokens: words, a word seen less often in the training split becomes <unk>"""
    max_words: Annotated[Positive | None, Affects.CODEC] = None
    """with tokens: words, keep only this many of the most frequent words; the others become <unk> (null: all)"""
    joint_vocabulary: Annotated[bool, Affects.CODEC] = False
    """one vocabulary for both languages (needed to tie all embeddings)"""
    tokenizer_from: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """use the tokenizers and vocabularies of this run (a name under runs/, or a folder) instead of learning new ones"""
    skip_empty: bool = False
    """leave out pairs with an empty side, and count them, instead of stopping at the first"""
    files: Annotated[dict[SplitName, Texts] | None, Affects.LOCATION] = None
    """with corpus: files, the text for train, for valid and for each test set, under its name: the two files of its
    sides, a TMX, XLIFF, .po, TSV, CSV or JSON lines file, or a list of these: {train: [{source: a.en, target: a.fr},
    b.tmx, c.tsv], valid: {…}, any_test_name: {…}}"""
    columns: Annotated[tuple[Column, Column], Field(strict=False)] | None = None
    """of tables and JSON lines, the columns of source and target, by their names or numbers, as [2, 3] (null: those
    that a heading names, or the first two)"""
    clean: Annotated[tuple[Rule, ...], Field(strict=False)] = ()
    """what is left out of the training text: any of empty, copies, markup, length, duplicates, held_out, language"""
    max_chars: Annotated[int, Field(ge=1, le=4_000)] = 4_000
    """training pairs with a side of more characters than this are left out"""
    held_out: HeldOutConfig = HeldOutConfig()
    """splits that have no files of their own"""
    captions: CaptionsConfig = CaptionsConfig()
    """with corpus: captions, how much of it"""
    fingerprint: Annotated[Fingerprint | None, Affects.TRAINING] = None
    """train on exactly this dataset (null: the newest one with these settings); a run records its dataset here"""

    @property
    def output_language(self) -> str:
        """The language that is written."""
        return self.to or self.target

    @property
    def texts(self) -> Iterator[tuple[str, Path]]:
        """Yield each of `files`, under the name by which its content is known: train.source, test.1, test.2.target."""
        for split, texts in (self.files or {}).items():
            for number, text in enumerate(texts if isinstance(texts, tuple) else (texts,), start=1):
                place = f"{split}.{number}" if isinstance(texts, tuple) or isinstance(text, Path) else split
                if isinstance(text, FilePair):
                    yield from ((f"{place}.source", text.source), (f"{place}.target", text.target))
                else:
                    yield place, text

    @property
    def lowercased(self) -> bool:
        """Whether text is lower-cased: `lowercase`, or if that is null, what suits the tokens."""
        return self.tokens == "words" if self.lowercase is None else self.lowercase

    @property
    def codec_settings(self) -> dict[str, Any]:
        """The settings that codecs are made and loaded with, by their dotted keys; only those that are in use."""
        values = self.model_dump(mode="json", include=fields_affecting(DataConfig, Affects.CODEC))
        unused = ("data.subwords.",) if self.tokens == "words" else ("data.min_freq", "data.max_words")
        used = {key: value for key, value in flatten(values, "data.") if not key.startswith(unused)}
        return {**used, "data.lowercase": self.lowercased}

    @model_validator(mode="after")
    def _check_values(self) -> "DataConfig":
        if self.tokens == "subwords":
            for key, value in (("min_freq", self.min_freq), ("max_words", self.max_words)):
                if value != DataConfig.model_fields[key].default:
                    raise ValueError(f"{key}: {value} applies to words only, but tokens is subwords; take it out")
        else:
            for key, value in self.subwords:
                if value != SubwordsConfig.model_fields[key].default:
                    raise ValueError(f"subwords.{key}: {value} needs tokens: subwords, but tokens is words")
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
            return self
        for key in ("columns", "clean", "max_chars", "held_out", *(["skip_empty"] if self.corpus == "pairs" else [])):
            if getattr(self, key) != DataConfig.model_fields[key].default:
                raise ValueError(f"{key}: it applies to corpus: files, but corpus is {self.corpus}; take it out")
        if self.files is not None:
            raise ValueError(f"files is set, but corpus is {self.corpus}; set corpus: files, or take files out")
        if self.corpus in ("pairs", "imported"):
            return self
        known = CORPUS_LANGUAGES[self.corpus]
        for key, language in (("source", self.source), ("target", self.target)):
            if language not in known:
                raise ValueError(f"{key}: {language!r} is not a language of {self.corpus}; it has {', '.join(known)}")
        if self.source == self.target:
            raise ValueError(f"source and target are both {self.source!r}; choose two languages")
        return self


class VectorsConfig(Section, affects=Affects.TRAINING):
    """Pretrained word vectors for the embeddings, in text files."""

    source: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """vectors for the source embedding: a file, as seen from the config's own folder"""
    target: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """vectors for the target embedding, likewise"""
    freeze: bool = False
    """keep the vectors as they are; words without a vector still learn"""

    @model_validator(mode="after")
    def _check_freeze(self) -> "VectorsConfig":
        if self.freeze and self.source is None and self.target is None:
            raise ValueError("freeze: true needs vectors; name them as source or target, or set freeze: false")
        return self


class ModelConfig(Section, affects=Affects.MODEL):
    """The Transformer's shape (Vaswani et al. 2017, section 3); the defaults are the tutorials' small model."""

    d_model: Width = 256
    """width of embeddings and of every layer's input and output"""
    num_heads: Annotated[int, Field(ge=1, le=1024)] = 8
    """attention heads"""
    head_dim: Width | None = None
    """width of a head's queries, keys and values (null: d_model / num_heads)"""
    num_encoder_layers: Layers = 3
    """layers of the encoder's stack"""
    num_decoder_layers: Layers = 3
    """layers of the decoder's stack"""
    d_ff: Width = 512
    """inner width of the position-wise feed-forward network"""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """the function between the feed-forward network's two projections"""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each residual sum (the paper) or before each sublayer"""
    final_norm: bool = False
    """one more LayerNorm at the end of both stacks (usual with norm: pre)"""
    start_token: bool = True
    """whether <sos> is read and predicted as other tokens are; false, as in Marian: the source has none, the target
    begins with its vector, which is zero in Marian, and neither <pad> nor <sos> has a probability"""
    positions: Literal["learned", "sinusoidal", "marian"] = "learned"
    """position vectors: a learned table, or the paper's sines and cosines"""
    max_length: Annotated[int, Field(ge=3, le=1_000_000)] | None = 100
    """the most positions that a sentence may take, <sos> and <eos> included (null: no limit; not with learned)"""
    scale_embeddings: bool = True
    """multiply token embeddings by √d_model (section 3.4)"""
    tie_embeddings: Literal["none", "target+output", "all"] = "none"
    """which of the source embedding, the target embedding and the output projection share one matrix"""
    qkv_bias: bool = True
    """biases in the query, key and value projections"""
    dropout: Annotated[Fraction, Affects.TRAINING] = 0.1
    """dropout on embeddings and on each sublayer's output"""
    attention_dropout: Annotated[Fraction | None, Affects.TRAINING] = None
    """dropout on attention weights (null: the same as dropout)"""
    activation_dropout: Annotated[Fraction | None, Affects.TRAINING] = None
    """dropout inside the feed-forward network, after its activation (null: the same as dropout)"""
    embedding_init: Annotated[Literal["xavier", "normal"], Affects.TRAINING] = "xavier"
    """how embeddings are drawn: Xavier-uniform, or N(0, 1/d_model) as the paper's own code does"""
    vectors: VectorsConfig = VectorsConfig()
    """pretrained vectors with which the embeddings begin, instead of random ones; usual with scale_embeddings: false,
    because × √d_model is meant for random rows, which are some 20 times smaller"""

    @property
    def pretrained(self) -> dict[str, str]:
        """Side → where the vectors for its embedding are; only one side if both embeddings are one matrix."""
        sides = {"source": self.vectors.source, "target": self.vectors.target}
        given = {side: where for side, where in sides.items() if where is not None}
        if self.tie_embeddings == "all" and len(given) == 2:
            del given["target"]
        return given

    @property
    def has_position_table(self) -> bool:
        """Whether position vectors are weights, of which there is a last one."""
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
        if self.positions != "learned" and self.d_model % 2:
            raise ValueError(
                f"d_model: {self.positions} positions come in pairs of sine and cosine; {self.d_model} is odd"
            )
        source, target = self.vectors.source, self.vectors.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError("vectors: with tie_embeddings: all both embeddings are one matrix; give source or target")
        return self


class TrainingConfig(Section, affects=Affects.TRAINING):
    """How a run is trained (section 5)."""

    epochs: Annotated[Positive, Affects.NOTHING] = 10
    """passes over the training split"""
    max_steps: Annotated[Positive | None, Affects.NOTHING] = None
    """optimiser steps after which training ends, whatever `epochs` says (null: after the epochs)"""
    validate_every: Annotated[Positive | None, Affects.NOTHING] = None
    """steps from one validation to the next (null: one at the end of each epoch); the last step is always followed by
    one"""
    batch_size: Positive = 128
    """sentences or target tokens per batch (see batch_by)"""
    batch_by: Literal["sentences", "tokens"] = "sentences"
    """what batch_size counts; tokens are target tokens without padding"""
    batch_order: Literal["random", "bucketed"] = "random"
    """random batches, or batches of sentences of similar length (faster, but learns a little less well)"""
    gradient_accumulation_steps: Positive = 1
    """batches whose gradients add up to one optimiser step, as if they were one batch"""
    optimizer: Literal["adam", "muon"] = "adam"
    """muon (Jordan et al. 2024) is for the matrices of the layers, and adam then for all other weights"""
    learning_rate: Annotated[float, Field(gt=0.0)] = 5e-4
    """the schedule's peak (with cosine and warm-up it is not quite reached, because both run from the first step)"""
    muon_learning_rate: Annotated[float, Field(gt=0.0)] = 0.02
    """Muon's peak rate, on the same schedule: about how far a step moves a vector of length 1"""
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "constant"
    """inverse_sqrt: lr·min(step/warmup, √(warmup/step)) (eq. 3); cosine: lr·½(1 + cos π·progress), from lr to 0 over
    all epochs or steps, whose number is then fixed"""
    warmup_steps: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """steps of linear warm-up, with any schedule"""
    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = (0.9, 0.999)
    """Adam's decay rates"""
    eps: Annotated[float, Field(ge=1e-30, le=1.0)] = 1e-8
    """Adam's epsilon"""
    label_smoothing: Fraction = 0.0
    """share of each target's probability spread over the vocabulary (section 5.4)"""
    clip_grad_norm: Annotated[float, Field(gt=0.0, le=1e9)] | None = 1.0
    """largest norm that the whole gradient may have (null: no clipping)"""
    best_checkpoint_metric: Literal["loss", "bleu", "chrf"] = "loss"
    """what says which validation is the best: its loss, or BLEU or chrF of greedy translations, which take longer"""
    patience: Annotated[Positive | None, Affects.NOTHING] = None
    """stop after this many validations without a new best one (null: never)"""
    average_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = None
    """at the end, also validate the mean of the weights of this many last validations (section 6.1; null: do not)"""
    initialize_from: Annotated[NameOrPath | None, Affects.LOCATION] = None
    """begin with the best weights of this run (a name under runs/, or a folder) instead of random ones: fine-tuning"""
    extra_valid: Annotated[tuple[NameOrPath, ...], Field(strict=False), Affects.LOCATION] = ()
    """with initialize_from, further validation text, e.g. of the old domain, which shows how much of it is forgotten:
    files of pairs, or the name of a split of the dataset"""
    replay: Annotated[tuple[NameOrPath, ...], Field(strict=False), Affects.LOCATION] = ()
    """with initialize_from, text mixed in as half of each epoch, likewise; a file of source sentences is first
    translated by the initial model"""
    interpolation: Fraction | None = None
    """with extra_valid, the share a of the initial weights in the final ones, (1 - a)·finetuned + a·initial (null:
    chosen so that the sum of the two validation losses is lowest)"""
    freeze: Annotated[tuple[ModelPart, ...], Field(strict=False)] = ()
    """parts of the model that are not trained (of source_embedding, target_embedding, encoder, decoder, output), nor is
    a matrix that another part shares with one of them"""
    save_minutes: Annotated[float, Field(gt=0.0, le=1e6), Affects.NOTHING] = 10
    """minutes between saves: the most that a kill can lose"""
    tensorboard: Annotated[bool, Affects.NOTHING] = False
    """also keep the history as a TensorBoard event file (needs the `tensorboard` extra)"""
    seed: Seed = 0
    """seed of initialisation, batches and dropout"""
    precision: Annotated[Literal["auto", "float32", "bfloat16"], Affects.NOTHING] = "auto"
    """precision of matrix products: auto uses bfloat16 autocast where the hardware is fast at it"""
    device: Annotated[Device, Affects.NOTHING] = "auto"
    """auto, cpu, cuda or cuda:N"""
    shards: Annotated[int, Field(ge=1, le=64)] | None = None
    """on the CPU: into how many shards a process splits each batch, each computed by one thread; changes the last
    digits of the weights (null: one per core, at most 8, chosen when the run begins)"""
    num_threads: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Affects.NOTHING] = None
    """CPU threads (null: torch's choice); training uses at most one per shard"""

    @property
    def needs_horizon(self) -> bool:
        """Whether learning rates depend on how long training will take, so that `end` is fixed."""
        return self.schedule == "cosine"

    @property
    def end(self) -> tuple[Literal["steps", "epochs"], int]:
        """The unit in which training is limited, and the limit."""
        return ("epochs", self.epochs) if self.max_steps is None else ("steps", self.max_steps)

    @property
    def end_key(self) -> Literal["max_steps", "epochs"]:
        """The setting that limits training."""
        return "epochs" if self.max_steps is None else "max_steps"

    def num_steps(self, n_batches: int) -> int:
        """Returns how many steps so many batches of an epoch make."""
        return -(-n_batches // self.gradient_accumulation_steps)

    @model_validator(mode="after")
    def _check_schedule(self) -> "TrainingConfig":
        if self.schedule == "inverse_sqrt" and self.warmup_steps == 0:
            raise ValueError("warmup_steps: schedule inverse_sqrt needs at least 1")
        for key in ("extra_valid", "replay"):
            if getattr(self, key) and self.initialize_from is None:
                raise ValueError(f"{key}: it is about a run that is trained further; name that with initialize_from")
        if self.interpolation is not None and not self.extra_valid:
            raise ValueError(
                f"interpolation: {self.interpolation} needs text to judge it by; name some with extra_valid"
            )
        unit, number = self.end
        each = self.validate_every if unit == "steps" else None if self.validate_every else 1
        if (
            self.average_checkpoints is not None
            and each is not None
            and self.average_checkpoints > (validations := -(-number // each))
        ):
            raise ValueError(
                f"average_checkpoints: {self.average_checkpoints}, but there are only {validations} validations; "
                "lower it"
            )
        return self


class DecodingConfig(Section, affects=Affects.NOTHING):
    """How a translation is searched for; the defaults are greedy search. A run keeps it, and --set overrides it."""

    beam_size: Annotated[int, Field(ge=1, le=1000)] = 1
    """hypotheses that are kept at each step (1: greedy search)"""
    length_penalty: Annotated[float, Field(ge=0.0, le=5.0)] = 1.0
    """α: hypotheses are compared by log p / length^α, <eos> counted (0: by log p, which prefers short ones)"""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=10_000)] = 0
    """no sequence of this many tokens occurs twice in a translation (0: any may)"""
    sample: bool = False
    """draw each token at random, instead of searching for the likeliest translation"""
    temperature: Annotated[float, Field(ge=0.001, le=1000.0)] = 1.0
    """with sample: divide logits by this; below 1 likely tokens become likelier"""
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """with sample: draw from this many likeliest tokens only (0: from all)"""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """with sample: draw from the likeliest tokens that together have this probability (Holtzman et al. 2020; 1: all)"""
    seed: Seed = 0
    """with sample: another seed draws other translations"""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """precision of matrix products, which changes a few words: auto uses bfloat16 where the hardware is fast at it; an
    exported model computes as it was exported"""

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
        """How is searched: "greedy", "beam 6, length penalty 1" or "samples", with what else is not usual."""
        words = "samples" if self.sample else "greedy"
        if self.beam_size > 1:
            words = f"beam {self.beam_size}, length penalty {self.length_penalty:g}"
        return words + (f", no {self.no_repeat_ngram_size} tokens twice" if self.no_repeat_ngram_size else "")


class TranslationSettings(DecodingConfig, affects=Affects.NOTHING):
    """How text is translated: how is searched, as a run's config says, and what text goes in and comes out.

    The command line, the server and `Translator.with_options` name these fields.
    """

    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """the longest translation in tokens, <eos> not counted (null: 2 × source + 10)"""
    n_best: Annotated[int, Field(ge=1)] = 1
    """translations of each sentence: the best ones of the beam, or this many samples"""
    return_scores: bool = True
    """whether log-probabilities are wanted; if only text is, a greedy search leaves them NaN where that saves time"""
    return_attention: bool = True
    """whether what each token attended to is wanted; if not, an exported model says it only of an unknown word"""
    keep_unk: bool = False
    """leave `<unk>` in the text, instead of the source word that the decoder attends to most"""
    on_too_long: OnTooLong = "stop"
    """what becomes of a line that is too long"""
    prefix: Annotated[str | tuple[int, ...], PlainValidator(_text_or_ids)] = ""
    """what every translation begins with, except that of a line without a letter: text, or ids"""
    split_sentences: bool = False
    """translate the sentences of a line one by one, with the white space that stands between them"""
    protect: bool = True
    """copy placeholders ({name}, %s), URLs and e-mail addresses unchanged"""
    protect_pattern: str = ""
    """copy what this regular expression matches unchanged, too"""
    glossary: dict[str, str] = Field(default_factory=dict)
    """translations of words and phrases: as `api.read_glossary` reads them"""

    @property
    def rows_per_sentence(self) -> int:
        """How many hypotheses of a sentence are decoded side by side."""
        return self.n_best if self.sample else self.beam_size

    @field_validator("n_best")
    @classmethod
    def _check_n_best(cls, n_best: int, others: ValidationInfo) -> int:
        beam_size = others.data.get("beam_size", 1)
        if not others.data.get("sample") and n_best > beam_size:
            raise ValueError(f"a beam of {beam_size} does not hold so many; raise beam_size to {n_best}")
        return n_best


class Config(Section, affects=Affects.NOTHING):
    """Everything that decides a run."""

    name: RunName | None = None
    """the run's folder under runs/ (null: named after corpus and languages, such as multi30k or captions.de-en)"""
    data: DataConfig = DataConfig()
    """what is translated into what"""
    model: ModelConfig = ModelConfig()
    """the Transformer"""
    training: TrainingConfig = TrainingConfig()
    """how it learns"""
    decoding: DecodingConfig = DecodingConfig()
    """how it translates"""

    @property
    def run_name(self) -> str:
        """The run's folder under runs/: `name`, or if that is null, corpus and languages; of the defaults, the corpus.

        So experiments with another corpus or other languages do not meet the first one.
        """
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
            raise ValueError(
                "model.vectors: they are vectors of words, but data.tokens is subwords; take one of them out"
            )
        if model.tie_embeddings == "all" and not self.data.joint_vocabulary:
            raise ValueError(
                "model.tie_embeddings: all three need one vocabulary for both sides; set data.joint_vocabulary: true"
            )
        if training.initialize_from is not None and model.pretrained:
            raise ValueError("training.initialize_from: its embeddings would replace model.vectors; name only one")
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
        """A mistake is a ConfigError. The context says where the settings come from, as `first_error_message` takes
        it."""
        try:
            return validate(given)
        except ValidationError as error:
            raise ConfigError(first_error_message(error, cls().model_dump(), **(about.context or {}))) from None


def fields_affecting(section: type[Section], *kinds: Affects) -> dict[str, Any]:
    """Returns the fields of a section that decide one of `kinds`, as model_dump's `include` takes them.

    A field that is a section itself is a mapping of such fields, and is absent if there are none.
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
    """Returns the dotted keys of the settings that decide one of `kinds`."""
    return {key for key, _ in flatten(fields_affecting(Config, *kinds))}


def flatten(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of all that is not a mapping."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
