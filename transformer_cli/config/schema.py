"""The typed config tree: every key, its type, its default, and which values fit together.

The docstring under a field is its description. Reads no file; imports no torch.
"""

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, field_validator, model_validator

from transformer_cli.config.data import DataConfig
from transformer_cli.config.decoding import DecodingConfig
from transformer_cli.config.section import (
    MOST_OF_A_NAME,
    NAME,
    Fraction,
    Layers,
    Positive,
    Section,
    Seed,
    Shapes,
    Width,
)

Part = Literal["source_embedding", "target_embedding", "encoder", "decoder", "output"]


def _device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,9})?|mps", name):
        raise ValueError(f"{name!r} is not a device; choose auto, cpu, cuda, cuda:N or mps")
    return name


class VectorsConfig(Section):
    """Pretrained word vectors for the embeddings: files, or names that gensim's downloader knows."""

    shapes = Shapes.TRAINING

    source: Annotated[Annotated[str, Field(min_length=1)] | None, Shapes.PLACE] = None
    """vectors for the source embedding: a path (with a "/" or a ".", from the config's own folder on), or a
    name such as glove-wiki-gigaword-100"""
    target: Annotated[Annotated[str, Field(min_length=1)] | None, Shapes.PLACE] = None
    """vectors for the target embedding, likewise"""
    freeze: bool = False
    """keep the vectors as they are; words without a vector still learn"""

    @model_validator(mode="after")
    def _there_is_something_to_freeze(self) -> "VectorsConfig":
        if self.freeze and self.source is None and self.target is None:
            raise ValueError("freeze: true needs vectors; name them as source or target, or set freeze: false")
        return self


class ModelConfig(Section):
    """The Transformer's shape (Vaswani et al. 2017, section 3); the defaults are the tutorials' small model."""

    shapes = Shapes.MODEL

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
    activation: Literal["relu", "gelu"] = "relu"
    """the function between the feed-forward network's two projections"""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each residual sum (the paper) or before each sublayer"""
    final_norm: bool = False
    """one more LayerNorm at the end of both stacks (usual with norm: pre)"""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """position vectors: a learned table, or the paper's sines and cosines"""
    max_length: Annotated[int, Field(ge=3, le=1_000_000)] | None = 100
    """the most positions that a sentence may take, <sos> and <eos> included (null: no limit; sinusoidal only)"""
    scale_embeddings: bool = True
    """multiply token embeddings by √d_model (section 3.4)"""
    tie_embeddings: Literal["none", "target+output", "all"] = "none"
    """which of the source embedding, the target embedding and the output projection share one matrix"""
    qkv_bias: bool = True
    """biases in the query, key and value projections"""
    dropout: Annotated[Fraction, Shapes.TRAINING] = 0.1
    """dropout on embeddings and on each sublayer's output, and wherever else nothing is said"""
    attention_dropout: Annotated[Fraction | None, Shapes.TRAINING] = None
    """dropout on attention weights (null: the same as dropout)"""
    feed_forward_dropout: Annotated[Fraction | None, Shapes.TRAINING] = None
    """dropout inside the feed-forward network, after its activation (null: the same as dropout)"""
    embedding_init: Annotated[Literal["xavier", "normal"], Shapes.TRAINING] = "xavier"
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

    @model_validator(mode="after")
    def _shapes_fit(self) -> "ModelConfig":
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide d_model {self.d_model}; choose a divisor, or set head_dim"
            )
        if self.max_length is None and self.positions == "learned":
            raise ValueError("max_length: null needs positions: sinusoidal; a learned table has a last position")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model: sinusoidal positions come in pairs of sine and cosine; {self.d_model} is odd")
        source, target = self.vectors.source, self.vectors.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError("vectors: with tie_embeddings: all both embeddings are one matrix; give source or target")
        return self


class TrainingConfig(Section):
    """How a run is trained (section 5)."""

    shapes = Shapes.TRAINING

    epochs: Annotated[Positive, Shapes.NOTHING] = 10
    """passes over the training split"""
    batch_size: Positive = 128
    """sentences or target tokens per batch (see batch_by)"""
    batch_by: Literal["sentences", "tokens"] = "sentences"
    """what batch_size counts; tokens are target tokens without padding"""
    batch_order: Literal["random", "bucketed"] = "random"
    """random batches, or batches of sentences of similar length (faster, but learns a little less well)"""
    accumulate: Positive = 1
    """batches whose gradients add up to one optimiser step, as if they were one batch"""
    optimizer: Literal["adam", "muon"] = "adam"
    """muon (Jordan et al. 2024) is for the matrices of the layers, and adam then for all other weights"""
    learning_rate: Annotated[float, Field(gt=0.0)] = 5e-4
    """the schedule's peak"""
    muon_learning_rate: Annotated[float, Field(gt=0.0)] = 0.02
    """the same for the weights that muon updates: about how far a step moves a vector of length 1"""
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "constant"
    """inverse_sqrt: lr·min(step/warmup, √(warmup/step)) (eq. 3); cosine: lr·½(1 + cos π·progress), from lr to 0 over
    all epochs, whose number is then fixed"""
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
    patience: Annotated[Positive | None, Shapes.NOTHING] = None
    """stop after this many validations without a new best one (null: never)"""
    average: Annotated[int, Field(ge=2, le=1000)] | None = None
    """at the end, validate the mean of the last so many epochs' weights as well (section 6.1; null: do not)"""
    initialize_from: Annotated[Annotated[str, Field(min_length=1)] | None, Shapes.PLACE] = None
    """begin with the best weights of this run (a name under runs/, or a folder) instead of random ones: fine-tuning"""
    freeze: Annotated[tuple[Part, ...], Field(strict=False)] = ()
    """parts of the model that stay as they begin (of source_embedding, target_embedding, encoder, decoder, output); so
    does a matrix that another part shares with one of them"""
    save_minutes: Annotated[float, Field(gt=0.0, le=1e6), Shapes.NOTHING] = 10
    """minutes between saves within an epoch: the most that a kill can lose"""
    tensorboard: Annotated[bool, Shapes.NOTHING] = False
    """also keep the history as a TensorBoard event file (needs the `tensorboard` extra)"""
    seed: Seed = 0
    """seed of initialisation, batches and dropout"""
    fast: bool = True
    """on the CPU: no padding, loss in chunks, cheap dropout masks; false: the plain forms (they differ only in rounding
    and in the random numbers that dropout draws)"""
    precision: Annotated[Literal["auto", "float32", "bfloat16"], Shapes.NOTHING] = "auto"
    """precision of matrix products: auto uses bfloat16 autocast where the hardware is fast at it"""
    device: Annotated[str, AfterValidator(_device), Shapes.NOTHING] = "auto"
    """auto, cpu, cuda, cuda:N or mps"""
    num_threads: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Shapes.NOTHING] = None
    """CPU threads (null: torch's choice)"""

    @model_validator(mode="after")
    def _schedule_fits(self) -> "TrainingConfig":
        if self.schedule == "inverse_sqrt" and self.warmup_steps == 0:
            raise ValueError("warmup_steps: schedule inverse_sqrt needs at least 1")
        if self.average is not None and self.average > self.epochs:
            raise ValueError(f"average: {self.average} epochs, but there are only {self.epochs}; lower it")
        return self


class Config(Section):
    """Everything that shapes a run."""

    shapes = Shapes.NOTHING

    name: str | None = None
    """the run's folder under runs/ (null: named after corpus and languages, such as multi30k or captions.de-en)"""
    data: DataConfig = DataConfig()
    """what is translated into what"""
    model: ModelConfig = ModelConfig()
    """the Transformer"""
    training: TrainingConfig = TrainingConfig()
    """how it learns"""
    decoding: DecodingConfig = DecodingConfig()
    """how it translates"""

    @field_validator("name")
    @classmethod
    def _is_a_folder_name(cls, name: str | None) -> str | None:
        if name is not None and (not NAME.fullmatch(name) or name == "latest"):
            raise ValueError(
                f"{name!r} cannot name a run; use up to 100 letters, digits, '.', '_' and '-', and not 'latest'"
            )
        return name

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
        return f"{data.corpus}.{data.source}-{data.target}"[:MOST_OF_A_NAME]

    @property
    def _held(self) -> set[str]:
        """The parts that learn nothing: frozen ones, and embeddings that are nothing but a frozen output's matrix."""
        held: set[str] = set(self.training.freeze)
        if "output" in held and self.model.positions == "sinusoidal":
            tied = {"none": (), "target+output": ("target_embedding",), "all": ("source_embedding", "target_embedding")}
            held.update(tied[self.model.tie_embeddings])
        return held

    @model_validator(mode="after")
    def _sections_fit(self) -> "Config":
        if self.model.pretrained and self.data.tokens == "subwords":
            raise ValueError(
                "model.vectors: they are vectors of words, but data.tokens is subwords; take them out, or set "
                "data.tokens: words"
            )
        if self.model.tie_embeddings == "all" and not self.data.joint_vocabulary:
            raise ValueError(
                "model.tie_embeddings: all three need one vocabulary for both sides; set data.joint_vocabulary: true"
            )
        if self.training.initialize_from is not None and self.model.pretrained:
            raise ValueError("training.initialize_from: its embeddings would replace model.vectors; name only one")
        if self._held == set(get_args(Part)):
            raise ValueError("training.freeze: every part is frozen, so nothing can be learned; leave one out")
        return self


def is_file(where: str) -> bool:
    """Whether `where` is a path, which has a "/" or a ".", and not a name for gensim's downloader."""
    return "/" in where or "." in where
