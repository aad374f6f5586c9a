"""Pretrained vectors in training: which rows they fill, which stay, what is said, and that a run needs no file."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from kinds import TrainTiny
from outcomes import power_cut
from transformer_cli import prepare
from transformer_cli.adapters.finetuning.pretrained import PretrainedVectors
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.checkpoints import load_weights
from transformer_cli.runs.run import Run
from transformer_cli.text.codec import Codec
from transformer_cli.text.vocabulary import PAD, SPECIALS

D_MODEL = 32
FREEZE = "model.vectors.freeze=true"
SHORT = ("training.batch_size=100", "training.epochs=3")  # an epoch of two steps


def words_of(codec: Codec) -> list[str]:
    """All words of its vocabulary, the most frequent first."""
    return codec.tokens(range(len(SPECIALS), len(codec)))


def write_vectors(path: Path, words: Sequence[str], size: int = D_MODEL) -> dict[str, NDArray[np.float32]]:
    """A vector for every second word, every sixth with a capital."""
    values = np.random.default_rng(0).normal(0, 0.4, (len(words), size)).astype(np.float32)
    chosen = {word: values[index] for index, word in enumerate(words) if index % 2}
    lines = [
        f"{word.capitalize() if index % 3 == 2 else word} {' '.join(map(str, vector.tolist()))}\n"
        for index, (word, vector) in enumerate(chosen.items())
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return chosen


@pytest.fixture
def source_vectors(tmp_path: Path, tiny: Run) -> dict[str, NDArray[np.float32]]:
    return write_vectors(tmp_path / "de.vec", words_of(tiny.codecs.source))


def embedding(run: Run, side: str) -> Tensor:
    weights = load_file(run.checkpoint("last") / "model.safetensors")
    name = f"{side}_embedding.tokens.weight"
    return weights[name] if name in weights else weights["output.weight"]  # tied: it is saved once


def expected_rows(run: Run, side: str, vectors: dict[str, NDArray[np.float32]]) -> tuple[list[int], Tensor]:
    codec = run.codecs.source if side == "source" else run.codecs.target
    ids = [codec.tokens(range(len(codec))).index(word) for word in vectors]
    assert min(ids) >= len(SPECIALS)
    return ids, torch.from_numpy(np.stack(list(vectors.values())))


@pytest.mark.usefixtures("source_vectors")
def test_pretrained_vectors_log_coverage_and_missing_words(
    corpus: Path, project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "de.vec"
    config = load_config(corpus / "tiny.yaml", [f"model.vectors.source={path}"])
    dataset = Dataset.open(find_dataset(config.data, project / "data"))
    words = words_of(dataset.codecs.source)
    n_upper = sum(word.capitalize() != word for word in words[5::6])
    caplog.set_level(logging.INFO)
    PretrainedVectors().before_new_run(config, dataset, tmp_path)
    (said,) = caplog.messages
    assert f"{path} ({D_MODEL} numbers each): {len(words) // 2} of {len(words)} words (" in said
    assert said.endswith(f"), {n_upper} of them in another case; missed: {', '.join(words[0:16:2])}, …")
    path.write_text("".join(f"{word} {'1 ' * D_MODEL}\n" for word in words), encoding="utf-8")
    PretrainedVectors().before_new_run(config, dataset, tmp_path)
    assert caplog.messages[1].endswith(f": {len(words)} of {len(words)} words (100.0%)")


@pytest.mark.parametrize("freeze", ["true", "false"])
def test_frozen_vectors_stay_and_the_rest_is_trained(
    train_tiny: TrainTiny, tmp_path: Path, tiny: Run, source_vectors: dict[str, NDArray[np.float32]], freeze: str
) -> None:
    settings = (*SHORT, f"model.vectors.source={tmp_path / 'de.vec'}", f"model.vectors.freeze={freeze}")
    with power_cut(tmp_path, "step-0000002-unvalidated"):  # a run that was never saved begins again: with the vectors
        train_tiny(tmp_path / "runs", *settings)
    run = train_tiny(tmp_path / "runs", *settings)
    assert load_weights(run, run.checkpoint("last")).state_dict().keys() == tiny.new_model().state_dict().keys()
    ids, values = expected_rows(run, "source", source_vectors)
    trained, random = embedding(run, "source"), run.new_model().source_embedding.tokens.weight.detach()
    unchanged = [row for row, value in zip(ids, values, strict=True) if trained[row].equal(value)]
    assert unchanged == (ids if freeze == "true" else [])
    moved = [row for row in range(len(random)) if row not in ids and not trained[row].equal(random[row])]
    assert moved == [row for row in range(len(random)) if row not in ids and row != PAD]  # no sentence reads <pad>


@pytest.mark.parametrize("ties", ["none", "target+output"])
def test_frozen_vectors_resume_exactly_without_their_file(
    train_tiny: TrainTiny, tmp_path: Path, tiny: Run, ties: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "en.vec"
    vectors = write_vectors(path, words_of(tiny.codecs.target))
    settings = (*SHORT, f"model.tie_embeddings={ties}", f"model.vectors.target={path}", FREEZE)
    whole = train_tiny(tmp_path / "whole", *settings)
    train_tiny(tmp_path / "parts", *settings, "training.epochs=1")
    path.unlink()
    with caplog.at_level(logging.INFO):
        resumed = train_tiny(tmp_path / "parts", *settings)
    files = [run.checkpoint("last") / "model.safetensors" for run in (whole, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    ids, values = expected_rows(resumed, "target", vectors)
    assert embedding(resumed, "target")[ids].equal(values)
    assert f"target vectors: {len(ids)} words frozen" in caplog.text


@pytest.mark.usefixtures("no_curves")
def test_frozen_vectors_of_both_sides_can_be_tied(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "both.vec"
    path.write_text(f"hund {'0.5 ' * D_MODEL}\ndog {'-0.5 ' * D_MODEL}\n", encoding="utf-8")
    overrides = [*SHORT, "data.joint_vocabulary=true", "model.tie_embeddings=all", FREEZE]
    overrides += [f"model.vectors.{side}={path}" for side in ("source", "target")]
    config = load_config(corpus / "tiny.yaml", overrides)
    prepare(config, data_dir=tmp_path / "data")
    run = train(config, data_dir=tmp_path / "data", runs_dir=tmp_path / "runs")
    ids = run.codecs.target.encode("hund dog").ids
    rows = embedding(run, "target")[ids]
    assert rows.equal(torch.tensor([[0.5], [-0.5]]).expand(2, D_MODEL))
    assert sorted(json.loads((run.folder / "frozen_rows.json").read_text())["source"]) == sorted(ids)


def test_vectors_of_another_width_leave_the_old_run(
    train_tiny: TrainTiny, workspace: Path, tiny: Run, tmp_path: Path
) -> None:
    write_vectors(tmp_path / "narrow.vec", words_of(tiny.codecs.source), size=7)
    (tmp_path / "foreign.vec").write_text(f"chien {'1 ' * D_MODEL}\n", encoding="utf-8")
    for name, said in (
        ("narrow.vec", r" has 7 numbers per word, but model\.d_model is 32; set model\.d_model: 7, or"),
        ("foreign.vec", r": no vector for any of the \d+ words of the source vocabulary; choose vectors for "),
        ("none.vec", ": cannot be read"),
    ):
        with pytest.raises((ConfigError, DataError), match=f"{tmp_path / name}{said}"):
            train_tiny(workspace / "runs", f"model.vectors.source={tmp_path / name}", fresh=True)
    assert [folder.name for folder in (workspace / "runs").glob("tiny*")] == ["tiny"]
    assert Run.open(workspace / "runs/tiny").has_checkpoint("best")
