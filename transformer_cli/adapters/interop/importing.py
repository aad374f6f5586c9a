"""import_run(folder): a model of Marian or of Hugging Face's transformers → a run for all commands.

Three things are reordered, exactly. Ids: <unk>, <pad>, <sos> and <eos> come first. Vectors: sines and cosines of
positions alternate, instead of all sines first. Queries, keys and values become one matrix.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer_cli.adapters.interop import foreign
from transformer_cli.adapters.interop.foreign import ForeignModel
from transformer_cli.adapters.interop.hugging_face import read_hugging_face
from transformer_cli.adapters.interop.marian import read_marian
from transformer_cli.config.load import validated
from transformer_cli.config.schema import MAX_NAME_CHARS, Config, ModelConfig
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.model.size import check_model_memory
from transformer_cli.model.transformer import Transformer, UninitializedWeights, count_parameters
from transformer_cli.runs.checkpoints import save_imported
from transformer_cli.runs.folder import is_new
from transformer_cli.runs.run import Run
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES, Codecs, ImportedCodec
from transformer_cli.text.languages import MULTILINGUAL, TARGET_TOKEN, find_target_languages, language_code, short_code
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import PAD, SPECIALS, Vocabulary

WIDTH_IN_COLUMNS = re.compile(r"(qkv|inner|tokens|positions)\.weight$|^output\.weight$")  # d_model columns
WIDTH_IN_ROWS = re.compile(r"(attention\.output|outer|norm)\.(weight|bias)$")  # d_model rows
VOCABULARY_MULTIPLE = 128  # to the next multiple of which trainers pad embeddings, at most
SIDE_OF_WEIGHT = {
    "source_embedding.tokens.weight": 0,
    "target_embedding.tokens.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}

log = logging.getLogger(__name__)


def import_run(
    folder: Path,
    *,
    name: str | None = None,
    source: str | None = None,
    target: str | None = None,
    model: str | None = None,
    runs_dir: Path = Path("runs"),
) -> Run:
    """Make a run of the model in a folder. Returns the run.

    name: the run's name (None: the folder's). source, target: language codes (None: as the files say). model: the file
    of the weights, if there are several. Raises DataError if the files are damaged or not supported, ConfigError if a
    setting is invalid or the run exists, MemoryShortage.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        what = "an empty folder" if folder.is_dir() else "not a folder" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; give one with a model of Marian or of Hugging Face's MarianMT")
    if (folder / "run.json").is_file():
        raise DataError(f"{folder}: a run of tfm, or its export, which needs no import; use it as it is")
    name = name or re.sub(r"[^A-Za-z0-9._-]+", "-", foreign.folder_name(folder)).lstrip("._-")[:MAX_NAME_CHARS]
    destination = runs_dir / name
    if not is_new(destination):
        raise ConfigError(f"{destination} exists already; give another name, or delete it first")
    weights = None if model is None else folder / Path(model).name
    if weights is not None and not weights.is_file():
        raise DataError(f"{weights}: no such file; name one of {folder}")
    is_marian_format = weights.suffix == ".npz" if weights else not (folder / "config.json").exists()
    theirs = (read_marian if is_marian_format else read_hugging_face)(folder, weights)
    own_codes = [short_code(code) if code else None for code in theirs.languages]
    codes = foreign.first_known((source, target), (own_codes[0], own_codes[1]))
    targets = find_target_languages(theirs.vocabularies[0].tokens)
    languages = [code or (MULTILINGUAL if side and targets else "") for side, code in enumerate(codes)]
    if unknown := [side for side, code in zip(SIDES, languages, strict=True) if not code]:
        raise DataError(f"{folder} does not say its languages; give {' and '.join(unknown)}, such as de")
    for side, code, other in zip(SIDES, (source, target), own_codes, strict=True):
        if code and other and language_code(code) != language_code(other):
            log.warning("%s: %s is used, although %s says %s", side, code, folder, other)
    vocabularies, rows = zip(*(_reorder_vocabulary(theirs, side) for side in theirs.vocabularies), strict=True)
    tensors = theirs.tensors
    if (shared := tensors.pop("tokens.weight", None)) is not None:
        for each in ("source_embedding.tokens.weight", "target_embedding.tokens.weight"):
            tensors.setdefault(each, shared)
    config = _build_config(theirs, name, languages, vocabularies)
    imported = _build_model(theirs, config.model, rows)
    codecs = (
        ImportedCodec(side.model, algorithm="imported", language=language, vocabulary=vocabulary)
        for side, vocabulary, language in zip(theirs.vocabularies, vocabularies, languages, strict=True)
    )
    tokenizer = {"library": "sentencepiece", "version": SENTENCEPIECE_VERSION}
    run = Run.create(destination, config, Dataset(folder, {"tokenizer": tokenizer}, Codecs(*codecs)))
    save_imported(run, imported)
    data = config.data
    log.info("%s: %s→%s, %s parameters", destination, data.source, data.target, f"{count_parameters(imported):,}")
    if targets:
        log.info("%s: translates into %s; choose one with --to", destination, pluralize(len(targets), "language"))
    return run


def width_permutation(config: ModelConfig) -> Tensor:
    """Returns, for each element of our vectors, its index in theirs, int64 (d_model,)."""
    width = torch.arange(config.d_model)
    return width if config.positions == "learned" else width.view(2, -1).T.flatten()  # d_model 8: 0 4 1 5 2 6 3 7


def permute_width(name: str, value: Tensor, width: Tensor) -> Tensor:
    """Returns a weight with its rows or columns of size d_model permuted. name: the weight's name in tfm."""
    if WIDTH_IN_COLUMNS.search(name):
        return value[:, width]
    return value[width] if WIDTH_IN_ROWS.search(name) else value


def _reorder_vocabulary(theirs: ForeignModel, side: foreign.ForeignVocabulary) -> tuple[Vocabulary, list[int]]:
    """Returns a side's vocabulary in tfm's order, and each token's row in the foreign embedding (-1: none)."""
    tokens = side.tokens
    for token in (foreign.UNK, foreign.EOS):
        if token not in tokens:
            raise DataError(f"{theirs.path}: its vocabulary has no {token}, unlike every model of Marian")
    unk, eos = tokens.index(foreign.UNK), tokens.index(foreign.EOS)
    others = [row for row in range(len(tokens)) if row not in (unk, eos, theirs.start_row, theirs.pad_row)]
    if reserved := {tokens[row] for row in others} & set(SPECIALS):
        raise DataError(f"{theirs.path}: its vocabulary has {min(reserved)}, which tfm reserves")
    return Vocabulary((*SPECIALS, *(tokens[row] for row in others))), [unk, -1, theirs.start_row, eos, *others]


def _build_config(theirs: ForeignModel, name: str, codes: Sequence[str], vocabularies: Sequence[Vocabulary]) -> Config:
    """Returns the settings of the run."""
    tensors = theirs.tensors
    source, target, output = (
        tensors.get(f"{part}.weight") for part in ("source_embedding.tokens", "target_embedding.tokens", "output")
    )
    is_joint, tie = vocabularies[0] == vocabularies[1], "none"
    if target is not None and (output is None or torch.equal(output, target)):
        tie = "target+output"
        if is_joint and source is not None and torch.equal(source, target):
            tie = "all"
    settings = {**theirs.model_settings, "start_token": False, "tie_embeddings": tie}
    data = {
        "corpus": "imported",
        "source": codes[0],
        "target": codes[1],
        "tokens": "subwords",
        "subwords": {
            "vocab_size": max(map(len, vocabularies)),
            "algorithm": "imported",
            "user_defined_symbols": [token for token in theirs.symbols if not TARGET_TOKEN.fullmatch(token)],
        },
        "joint_vocabulary": is_joint,
    }
    tree = {"name": name, "data": data, "model": settings, "training": {"epochs": 1}, "decoding": {**theirs.decoding}}
    given = ((("name",), "name"), (("data", "source"), "source"), (("data", "target"), "target"))
    return validated(tree, str(theirs.path), given=given)


def _build_model(theirs: ForeignModel, config: ModelConfig, rows: Sequence[Sequence[int]]) -> Transformer:
    """Returns the model with all imported weights."""
    check_model_memory(config, (len(rows[0]), len(rows[1])), prefix=f"{theirs.path}: ")
    with UninitializedWeights():
        model = Transformer(config, source_vocabulary=len(rows[0]), target_vocabulary=len(rows[1]), pad_id=PAD)
    width = width_permutation(config)
    unused = dict(theirs.tensors)
    padding = set[int]()  # rows of embeddings

    def take(name: str, shape: Sequence[int]) -> Tensor:
        if (value := unused.pop(name, None)) is None:
            raise DataError(f"{theirs.path}: {name}, as tfm calls it, is missing")
        if name in SIDE_OF_WEIGHT and value.ndim and shape[0] < len(value) < shape[0] + VOCABULARY_MULTIPLE:
            padding.add(len(value) - shape[0])
            value = value[: shape[0]]
        if value.shape != torch.Size(shape) or not value.is_floating_point():
            raise DataError(
                f"{theirs.path}: {name}, as tfm calls it, is {value.dtype} {[*value.shape]}; by the settings and "
                f"vocabulary, it should be floats {[*shape]}"
            )
        if not value.isfinite().all():
            raise DataError(f"{theirs.path}: {name}, as tfm calls it, has infinite numbers or NaN; give other weights")
        return value.float()

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = [*parameter.shape]
            if (side := SIDE_OF_WEIGHT.get(name)) is not None:
                value = take(name, [len(theirs.vocabularies[side].tokens), *shape[1:]])
                value = torch.cat((value, torch.zeros_like(value[:1])))[[*rows[side]]]
            elif ".qkv." in name:
                parts = [name.replace(".qkv.", f".{part}.") for part in "qkv"]
                value = torch.cat([take(part, [shape[0] // 3, *shape[1:]]) for part in parts])
            else:
                value = take(name.replace("attention.output.", "attention.o."), shape)
            parameter.copy_(permute_width(name, value, width))
    if padding:
        what = "%s: its embeddings have %s more than the vocabulary has tokens; these are left out"
        log.warning(what, theirs.path, pluralize(max(padding), "row"))
    for name in model.state_dict():  # other names of tied matrices
        unused.pop(name, None)
    if unused:
        raise DataError(f"{theirs.path}: unknown weight {min(unused)}, so the model has another architecture")
    return model
