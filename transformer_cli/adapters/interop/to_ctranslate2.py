"""export(run): a run's best weights → a folder in CTranslate2's format, with the run's codecs and settings.

`write_model` maps our weights to CTranslate2's. The folder's README.md is made from readme_words.md or
readme_subwords.md.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch

from transformer_cli.adapters.interop.ctranslate2 import CTranslate2Engine, format_settings, import_ctranslate2
from transformer_cli.compute.devices import format_bytes
from transformer_cli.config.schema import MAX_LINE_CHARS, Config, ModelConfig
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_best
from transformer_cli.runs.folder import EDITABLE_FILES, is_exported
from transformer_cli.runs.metadata import ExportInfo, write_config, write_metadata
from transformer_cli.runs.run import Run
from transformer_cli.scoring.losses import read_loss_check, sentence_losses
from transformer_cli.system.files import atomic_folder, write_checksums, write_text
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import Codecs, WordCodec
from transformer_cli.text.vocabulary import N_SOS_EOS, SPECIALS

log = logging.getLogger(__name__)

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8")
MAX_TABLE_POSITIONS = MAX_LINE_CHARS + N_SOS_EOS  # for sinusoids, which have no limit of their own
EXPORTABLE = {
    "activation": ("relu", "gelu", "swish"),
    "norm": ("post", "pre"),
    "positions": ("learned", "sinusoidal", "marian"),
}
"""keys under `model` with the values that the format supports"""
FORBIDDEN_LOGIT = -1e4  # of tokens that are never written; float16 can represent it
MADE_UP_ID = 14  # where a made-up sentence ends
RTOL, ATOL = 2e-5, 1e-4  # of a sentence's loss in float32


def export(
    run: str | Path | Run | None = None,
    output: str | Path | None = None,
    *,
    quantization: str = "float32",
    runs_dir: Path = Path("runs"),
) -> Run:
    """Write the best weights of a run (None: the newest) into a new folder. Returns it as a run.

    output: the folder (None: exports/NAME, or exports/NAME-int8 and so on); if it has the same export already, it is
    returned. quantization: the type of the weights: float32, float16, bfloat16, int16 or int8. Raises CheckpointError;
    ConfigError if CTranslate2 is missing, `output` has something else, or the model cannot be exported; OSError.
    """
    if quantization not in QUANTIZATIONS:
        raise ConfigError(f"quantization: {quantization!r} is not one of {', '.join(QUANTIZATIONS)}")
    source_run = Run.load(run, runs_dir)
    if source_run.config.data.tokens == "spaces":
        raise ConfigError("data.tokens: spaces cannot be exported, only words or subwords; use the run itself")
    library = import_ctranslate2()
    suffix = "" if quantization == "float32" else f"-{quantization}"
    destination = Path(output) if output else Path("exports") / f"{source_run.folder.resolve().name}{suffix}"
    info = ExportInfo(
        run=source_run.folder.resolve().name,
        checkpoint=source_run.best_checkpoint_name,
        quantization=quantization,
        positions=count_positions(source_run.config.model),
        written_by=library.__version__,
    )
    if is_exported(destination):
        earlier = Run.open(destination)
        assert earlier.exported, destination
        if earlier.metadata.id != source_run.metadata.id or earlier.exported != info:
            old = earlier.exported
            raise ConfigError(
                f"{destination} exists already: {old.checkpoint} of {old.run} in {old.quantization}, by CTranslate2 "
                f"{old.written_by}; name another output, or delete it first"
            )
        log.info("%s exists already: %s of %s in %s", destination, info.checkpoint, source_run.folder, quantization)
        return earlier
    if os.path.lexists(destination):
        raise ConfigError(f"{destination} exists already and is not an exported model; name another output")
    checkpoint, model = load_best(source_run, torch.device("cpu"))
    info = replace(info, checkpoint=checkpoint)  # training may have found better weights meanwhile
    codecs = source_run.codecs
    with atomic_folder(destination) as folder:
        codecs.save(folder)
        write_checked_model(model, folder, codecs, source_run.folder / "checkpoints" / checkpoint, quantization)
        write_config(folder, source_run.config)
        write_text(folder / "README.md", readme(source_run.config, codecs, info))
        write_metadata(folder, replace(source_run.metadata, exported=info))
        write_checksums(folder, sorted(path.name for path in folder.iterdir() if path.name not in EDITABLE_FILES))
    size = format_bytes((destination / "model.bin").stat().st_size)
    log.info("%s: %s of %s in %s, %s", destination, checkpoint, source_run.folder, quantization, size)
    return Run.open(destination)


def write_checked_model(
    model: Transformer, folder: Path, codecs: Codecs, checkpoint: Path, quantization: str = "float32"
) -> None:
    """Write a model as `write_model` does, which may change it, after the losses of both were compared in float32.

    checkpoint: has the pairs to compare. For an imported model, which has none, a made-up pair is compared. Raises
    ConfigError if the losses differ, because the code under model/ was changed; else as `write_model` does.
    """
    source, target = codecs.source.all_tokens(), codecs.target.all_tokens()
    ids = [[*range(len(SPECIALS), min(len(tokens), MADE_UP_ID))] for tokens in (source, target)]
    split, _ = read_loss_check(checkpoint) or (EncodedSplit(*(Side.of([each]) for each in ids)), None)
    rows = range(len(split))
    found = sentence_losses(model, split, np.arange(len(split)))
    write_model(model, folder, source=source, target=target)
    exported = CTranslate2Engine(folder, "cpu", positions=count_positions(model.config), source=source, target=target)
    pairs = [[side[row].tolist() for row in rows] for side in (split.source, split.target)]
    try:
        theirs = [-sum(each) for each in exported.log_probs(*pairs)]
    except (RuntimeError, ValueError) as error:  # as in multi-query attention
        what = f"the model's code has weights of other shapes than the format: {error}"
        raise ConfigError(f"{what}; use the run itself") from None
    if not np.allclose(found.nll, theirs, RTOL, ATOL):
        ours, exported_loss = (sum(nll) / int(found.tokens.sum()) for nll in (found.nll, theirs))
        raise ConfigError(
            f"the model's code was changed, and the export does not compute the same: the loss of "
            f"{pluralize(len(split), 'pair')} is {ours:.4f}, and {exported_loss:.4f} once exported; use the run itself"
        )
    if quantization != "float32":
        write_model(model, folder, source=source, target=target, quantization=quantization)


def readme(config: Config, codecs: Codecs, info: ExportInfo) -> str:
    """Returns the folder's README: how to translate with the model in Python without tfm.

    Its code uses the run's `decoding` settings, except those of sampling.
    """
    is_of_words = isinstance(codecs.target, WordCodec)
    is_one_by_one = is_of_words and config.decoding.beam_size > 1  # for a reason in readme_words.md
    options = {
        "beam_size": config.decoding.beam_size,
        "length_penalty": config.decoding.length_penalty,
        "no_repeat_ngram_size": config.decoding.no_repeat_ngram_size,
        "max_decoding_length": info.positions - N_SOS_EOS,
        "max_input_length": info.positions,
        "max_batch_size": 1 if is_one_by_one else 2048,
        "batch_type": '"examples"' if is_one_by_one else '"tokens"',
    }
    page = Path(__file__).with_name("readme_words.md" if is_of_words else "readme_subwords.md")
    return Template(page.read_text(encoding="utf-8")).substitute(
        vars(info),
        source=config.data.source,
        target=config.data.target,
        lowercase=config.data.lowercased,
        options=",\n        ".join(f"{name}={value}" for name, value in options.items()),
        longest=info.positions - N_SOS_EOS,
    )


def count_positions(config: ModelConfig) -> int:
    """Returns how many positions an exported model has, <sos> and <eos> included.

    Sinusoids are exported as a table, because CTranslate2's own begin at position 1 and have all sines before all
    cosines.
    """
    if config.has_position_table:
        assert config.max_length is not None  # the config ensures it
        return config.max_length
    return min(config.max_length or MAX_TABLE_POSITIONS, MAX_TABLE_POSITIONS)


def write_model(
    model: Transformer, folder: Path, *, source: Sequence[str], target: Sequence[str], quantization: str = "float32"
) -> None:
    """Write a model into a folder in CTranslate2's format.

    source, target: the tokens in the order of their ids, without duplicates. quantization: one of QUANTIZATIONS. Raises
    ConfigError if the format does not support the model, OSError.
    """
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    config = model.config
    for key, known in EXPORTABLE.items():
        if (value := getattr(config, key)) not in known:
            raise ConfigError(f"model.{key}: {value} cannot be exported, only {' or '.join(known)}; use the run itself")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    unused = {name for name in parameters if "_embedding.positions." not in name}  # `stack` exports these as tables

    def weight(name: str) -> Any:
        if name not in parameters:
            raise ConfigError(f"{name}: the model's code lacks this weight, which the format needs; use the run itself")
        unused.discard(name)
        return parameters[name].detach().cpu().numpy()

    def linear(spec: Any, name: str, rows: slice = slice(None)) -> None:
        spec.weight = weight(f"{name}.weight")[rows]
        if f"{name}.bias" in parameters:
            spec.bias = weight(f"{name}.bias")[rows]

    def norm(spec: Any, name: str) -> None:
        spec.gamma, spec.beta = weight(f"{name}.weight"), weight(f"{name}.bias")

    def stack(spec: Any, name: str, positions: torch.nn.Module) -> None:
        """Write what the encoder and the decoder have in common."""
        spec.scale_embeddings = config.scale_embeddings
        with torch.no_grad():
            spec.position_encodings.encodings = positions(torch.arange(count_positions(config))).float().numpy()
        spec.pre_norm = config.norm == "pre"
        if config.final_norm:
            norm(spec.layer_norm, f"{name}.norm")
        for index, layer in enumerate(spec.layer):
            ours = f"{name}.layers.{index}"
            linear(layer.self_attention.linear[0], f"{ours}.self_attention.qkv")
            linear(layer.self_attention.linear[1], f"{ours}.self_attention.output")
            norm(layer.self_attention.layer_norm, f"{ours}.residuals.0.norm")
            linear(layer.ffn.linear_0, f"{ours}.feed_forward.inner")
            linear(layer.ffn.linear_1, f"{ours}.feed_forward.outer")
            norm(layer.ffn.layer_norm, f"{ours}.residuals.{2 if name == 'decoder' else 1}.norm")

    shape = {
        "pre_norm": True,  # changed in `stack`; the constructor gives post-norm no final norm
        "no_final_norm": not config.final_norm,
        "activation": Activation[config.activation.upper()],
        "head_dim": config.head_dim,
    }
    encoder = TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **shape)
    encoder.embeddings[0].weight = weight("source_embedding.tokens.weight")
    stack(encoder, "encoder", model.source_embedding.positions)
    # the returned attention is the mean over all heads of the last layer
    n_heads = config.num_heads
    decoder = TransformerDecoderSpec(config.num_decoder_layers, n_heads, alignment_heads=n_heads, **shape)
    decoder.embeddings.weight = weight("target_embedding.tokens.weight")
    stack(decoder, "decoder", model.target_embedding.positions)
    linear(decoder.projection, "output")
    decoder.projection.bias = decoder.projection.bias.copy()
    decoder.projection.bias[model.output.suppressed_ids.tolist()] = FORBIDDEN_LOGIT
    for index, layer in enumerate(decoder.layer):
        ours = f"decoder.layers.{index}"
        inner = model.decoder.layers[index].cross_attention.inner_dim  # rows of W_Q; those of W_K and W_V follow
        linear(layer.attention.linear[0], f"{ours}.cross_attention.qkv", slice(inner))
        linear(layer.attention.linear[1], f"{ours}.cross_attention.qkv", slice(inner, None))
        linear(layer.attention.linear[2], f"{ours}.cross_attention.output")
        norm(layer.attention.layer_norm, f"{ours}.residuals.1.norm")
    if unused:
        raise ConfigError(f"{min(unused)}: the format has no such weight, so the model cannot be exported")
    spec = TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    for name, value in format_settings(config).items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))
