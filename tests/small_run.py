"""A run of a model of a few numbers, made without text or training."""

from pathlib import Path

from transformer_cli.config.schema import Config, DataConfig, ModelConfig
from transformer_cli.data.dataset import Dataset
from transformer_cli.runs.run import Run
from transformer_cli.text.codec import Codecs, WordCodec
from transformer_cli.text.vocabulary import SPECIALS, Vocabulary
from transformer_cli.text.words import Detokenizer

SOURCE, TARGET = Vocabulary((*SPECIALS, "ä", "\u2028")), Vocabulary((*SPECIALS, "a"))
DETOKENIZER = Detokenizer(frozenset({"."}), frozenset({"("}), frozenset({("t", "-")}), frozenset({("ä", ".")}))


def make_run(folder: Path, tie_embeddings: str = "none") -> Run:
    """A new run. Its words are those of SOURCE and TARGET, or of TARGET alone where all embeddings are tied."""
    is_joint = tie_embeddings == "all"
    shape = {"d_model": 4, "num_heads": 1, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 4}
    config = Config(
        data=DataConfig(joint_vocabulary=is_joint),
        model=ModelConfig.model_validate({**shape, "max_length": 8, "tie_embeddings": tie_embeddings}),
    )
    source = WordCodec("de", True, TARGET if is_joint else SOURCE, Detokenizer())
    dataset = Dataset(Path("nowhere"), {}, Codecs(source, WordCodec("en", True, TARGET, DETOKENIZER)))
    return Run.create(folder, config, dataset)
