"""How a model's weights begin: drawn at random, or left for a checkpoint to fill. Knows nothing of files or seeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer_cli.model.attention import MultiHeadAttention
from transformer_cli.model.positions import LearnedPositions


def initialize(module: nn.Module) -> None:
    """Initialise every matrix, embeddings included, Xavier-uniform; leave biases and LayerNorm as torch makes them.

    The bound depends on a matrix's shape (Glorot and Bengio 2010), so the three parts of a fused q/k/v matrix are
    initialised one by one.
    """
    if isinstance(module, MultiHeadAttention):
        for part in module.qkv.weight.detach().split(module.inner):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(module.output.weight)
    elif isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
        nn.init.xavier_uniform_(module.weight)


def draw_embedding(weight: Tensor, pad_id: int) -> None:
    """Draw token vectors (vocabulary, d_model) from N(0, 1/d_model), as the paper's own code does; <pad>'s is zero.

    After × √d_model (3.4) their numbers are about as large as the sines and cosines of the positions (3.5). Drawn
    Xavier-uniform they would be smaller, the more so the larger the vocabulary: for 37,000 tokens of 512 numbers 0.17
    against 0.71, so that positions drown tokens.
    """
    nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    nn.init.zeros_(weight.detach()[pad_id])


class UninitializedWeights(TorchFunctionMode):
    """Inside the block a new model draws no weights: they are whatever was in memory, and have to be loaded.

    Everything else is as usual: buffers have their values, tied weights are one tensor.
    Random states are not touched, and other threads draw as usual.

        with UninitializedWeights():
            model = Transformer(config, …)
        load_model(model, path)
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a tensor unchanged if torch.nn.init, or a function it uses, would fill it; call any other function."""
        keywords = keywords or {}
        if getattr(function, "__module__", None) == nn.init.__name__ or function in (Tensor.uniform_, Tensor.normal_):
            return keywords["tensor"] if "tensor" in keywords else arguments[0]
        return function(*arguments, **keywords)
