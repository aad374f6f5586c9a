"""`tfm export`: the folder translates and is evaluated like the run, with tfm and without it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from kinds import Refused, Tfm
from sealed import edit_sealed
from transformer_cli import Translator, evaluate
from transformer_cli.adapters.interop.to_ctranslate2 import export, readme, write_checked_model, write_model
from transformer_cli.config.schema import DecodingConfig
from transformer_cli.errors import CheckpointError, ConfigError
from transformer_cli.model.layers import Residual
from transformer_cli.runs.folder import is_new
from transformer_cli.runs.metadata import ExportInfo
from transformer_cli.runs.run import Run
from transformer_cli.system.files import write_text


@pytest.fixture(scope="module")
def exported(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The project's run of words, exported. Do not write to it."""
    return export(translator.run.folder, tmp_path_factory.mktemp("exports") / "tiny")


@pytest.fixture
def copy(exported: Run, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(exported.folder, tmp_path / "copy"))


@pytest.fixture(scope="module")
def sentences(corpus: Path) -> list[str]:
    """The test set, with blank lines and unknown words."""
    return ["", *(corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1], " ", "Quokka schläft ▁ 🦘."]


def test_exported_word_model_translates_like_the_run(
    translator: Translator, exported: Run, sentences: list[str]
) -> None:
    found, ours = (each.translate_detailed(sentences) for each in (Translator(exported.folder), translator))
    assert any("<unk>" in each.tokens for each in ours)
    for one, other in zip(found, ours, strict=True):
        for key in ("text", "tokens", "source_tokens", "ids", "source_ids", "alignment"):
            assert getattr(one, key) == getattr(other, key)
        assert (one.log_prob, one.score) == pytest.approx((other.log_prob, other.score), abs=2e-3)


def test_exported_beam_in_a_batch_has_its_own_attention(
    translator: Translator, exported: Run, sentences: list[str]
) -> None:
    found, ours = (
        each.with_options(prefix="the", n_best=2, beam_size=3).translate_detailed(sentences)
        for each in (Translator(exported.folder), translator)
    )
    same = [(one, other) for one, other in zip(found, ours, strict=True) if one.ids == other.ids]
    assert len(same) > len(sentences) / 2
    assert [one.alignment for one, _ in same] == [other.alignment for _, other in same]


@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_export_readme_translates_without_tfm(
    kind: str, translator: Translator, by_subwords: Translator, sentences: list[str], copy: Path, tmp_path: Path
) -> None:
    ours = translator if kind == "words" else by_subwords
    folder = copy if kind == "words" else export(ours.run.folder, tmp_path / "subwords").folder
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "transformer_cli" not in code
    write_text(folder / "translate.py", code)
    lines = sentences[:-1]  # the last one has a "▁"
    given = "".join(f"{line}\n" for line in lines)
    command = [sys.executable, "translate.py"]
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, encoding="utf-8", check=True)
    unlimited = ours.with_options(max_tokens=10_000)  # it has one limit for all sentences
    assert done.stdout == "".join(f"{line}\n" for line in unlimited.translate(lines))


def test_export_readme_with_words_and_a_beam_has_batch_size_one(
    translator: Translator, by_subwords: Translator
) -> None:
    for ours, is_one_by_one in ((translator, True), (by_subwords, False)):
        config = ours.run.config
        config = config.model_copy(update={"decoding": DecodingConfig(beam_size=3)})
        page = readme(config, ours.run.codecs, ExportInfo("tiny", "step-0000001", "float32", 42, "4.8.5"))
        assert ("max_batch_size=1," in page, "one at a time" in page) == (is_one_by_one, is_one_by_one)


def test_exported_model_works_in_translate_and_evaluate_commands(
    project: Path, copy: Path, tfm: Tfm, corpus: Path
) -> None:
    runs = ("tiny", str(copy))
    results = []
    for run in runs:
        code, out, err = tfm("evaluate", "--run", run, "--json", cwd=project)
        assert code == 0, err
        results.append(json.loads(out)["results"][0])
    one, other = results
    assert {key for key in one if one[key] != other[key]} <= {"loss", "loss_batch_mean", "ppl", "seconds"}
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
    assert one["loss_batch_mean"] == pytest.approx(other["loss_batch_mean"], rel=1e-5)
    (kept,) = (json.loads(line) for line in (copy / "evaluations.jsonl").read_text(encoding="utf-8").splitlines())
    assert kept["checkpoint"] == Translator(project / "runs/tiny").run.best_checkpoint_name
    code, out, err = tfm("compare", *runs, "--split", "test", cwd=project)
    assert (code, out.count("equal scores")) == (0, 1), err
    given = ("-i", corpus / "test.de", "--translation", corpus / "test.en")
    both = [tfm("score", *given, "-r", run, cwd=project) for run in runs]
    scores = [[float(line.split()[0]) for line in out.splitlines()] for _, out, _ in both]
    assert scores[0] == pytest.approx(scores[1], abs=2e-4)
    sentence = "Der alte Hund singt im Park."
    texts = [tfm("translate", "-r", run, "--beam-size", "3", "--prefix", "The", sentence, cwd=project) for run in runs]
    assert texts[0] == texts[1]


def test_exported_model_is_refused_by_other_commands(copy: Path, project: Path, refused: Refused) -> None:
    use = ("--run", copy)
    assert "cannot be inspected, since" in refused("inspect", "Hund", *use, cwd=project)
    assert "cannot be part of an ensemble" in refused("translate", "Hund", *use, "--run", "tiny", cwd=project)
    assert "cannot be part of an ensemble" in refused("evaluate", "--run", "tiny", *use, cwd=project)
    for command in (("curves", copy), ("export", copy)):
        assert "an exported model can translate and be evaluated" in refused(*command, cwd=project)
    sampled = refused("translate", "Hund", *use, "--set", "decoding.sample=true", cwd=project)
    assert "cannot sample" in sampled
    with pytest.raises(CheckpointError, match=r"an exported model can .*; name the run that it was made from$"):
        is_new(copy)  # so nothing is trained in its folder


@pytest.mark.parametrize(
    ("arguments", "place"),
    [((), "exports/tiny"), (("tiny", "-q", "int8"), "exports/tiny-int8"), (("runs/tiny", "-o", "b"), "b")],
)
def test_export_writes_into_exports_and_replaces_nothing(
    arguments: tuple[str, ...], place: str, workspace: Path, tfm: Tfm, refused: Refused
) -> None:
    code, out, err = tfm("export", *arguments, cwd=workspace)
    assert (code, out) == (0, f"{place}\n"), err
    assert re.fullmatch(rf"{place}: step-\d+ of runs/tiny in (float32|int8), \d+ kB\n", err)
    code, out, err = tfm("export", *arguments, cwd=workspace)
    assert (code, out) == (0, f"{place}\n")
    assert err.startswith(f"{place} exists already: step-")
    other = refused("export", "tiny", "-q", "int16", "-o", place, cwd=workspace)
    assert re.search(rf"{place} exists already: step-\d+ of tiny in .*; name another output, or delete it", other)
    for taken in ("runs/tiny", "."):
        other = refused("export", "tiny", "-o", taken, cwd=workspace)
        assert other.endswith(f"{taken} exists already and is not an exported model; name another output")
    assert tfm("translate", "-r", place, "", cwd=workspace)[:2] == (0, "\n")


def test_export_over_a_damaged_export_is_refused(copy: Path, project: Path, refused: Refused) -> None:
    for name in ("model.bin", "run.json"):
        (copy / name).write_bytes((copy / name).read_bytes()[:50])
        err = refused("export", "tiny", "-o", copy, cwd=project)
        assert err.endswith("; restore it, or delete the folder and export the run again")


def test_exported_weights_in_a_device_are_a_damaged_run(copy: Path, project: Path, refused: Refused) -> None:
    (copy / "model.bin").unlink()
    (copy / "model.bin").symlink_to("/dev/zero")
    what = f"{copy}: damaged run: {copy}/model.bin: not a file, but a pipe or a device"
    err = refused("translate", "--run", copy, "Hund", cwd=project)
    assert err == f"tfm: error: {what}; restore it, or delete the folder and export the run again"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda value: value.update(decoder_start_token=None)),
        ("config.json", lambda value: value.update(add_source_bos=False)),
        ("config.json", lambda value: value.clear()),
        ("target_vocabulary.json", lambda value: value.reverse()),
        ("source_vocabulary.json", lambda value: value.clear()),
    ],
)
def test_exported_settings_of_another_model_are_a_damaged_run(
    name: str, change: Callable[[Any], object], copy: Path, project: Path, refused: Refused
) -> None:
    edit_sealed(copy / name, change)
    err = refused("translate", "--run", copy, "Hund", cwd=project)
    assert f"{copy}/{name}: damaged: its content is not that of this run; restore it" in err


def test_runs_skips_exported_models(copy: Path, workspace: Path, tfm: Tfm) -> None:
    shutil.copytree(copy, workspace / "runs/exported")
    assert [run["name"] for run in json.loads(tfm("runs", "--json", cwd=workspace)[1])["runs"]] == ["tiny"]
    assert tfm("translate", "-r", "exported", "", cwd=workspace)[:2] == (0, "\n")


def test_exported_config_may_change_the_search(copy: Path, project: Path, tfm: Tfm) -> None:
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    write_text(copy / "config.yaml", config.replace("beam_size: 1", "beam_size: 4"))
    translate = ("translate", "--n-best", "4", "Der Hund singt.", "--run", copy)  # which a beam of 1 refuses
    code, _, err = tfm(*translate, cwd=project)
    assert (code, err) == (0, "")


def test_ctranslate2_not_installed_is_one_line_error(
    copy: Path, project: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for command in (("translate", "Hund", "--run", copy), ("export", "tiny", "-o", "x")):
        said = refused(*command, cwd=project)
        assert "CTranslate2, which exported models need, is not installed; run `pip install" in said


def test_export_unknown_quantization_is_an_error(project: Path) -> None:
    said = r"^quantization: 'int4' is not one of float32, float16, bfloat16, int16, int"
    with pytest.raises(ConfigError, match=said):
        export("tiny", quantization="int4", runs_dir=project / "runs")


def test_evaluate_exported_int8_has_its_own_loss(translator: Translator, project: Path, tmp_path: Path) -> None:
    small = export(translator.run.folder, tmp_path / "x", quantization="int8").folder
    (ours,), (found,) = (list(evaluate(each, data_dir=project / "data")) for each in (translator.run.folder, small))
    assert 0 < abs(found.result.loss - ours.result.loss) < 0.05


@pytest.mark.parametrize(("quantization", "factor"), [("float32", 0.99), ("int8", 0.99)])
def test_export_of_slightly_changed_formula_is_refused(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantization: str, factor: float
) -> None:
    plain = Residual.forward
    monkeypatch.setattr(Residual, "forward", lambda self, x, output: plain(self, x, factor * output))
    said = r"^the model's code was changed, .*: the loss of 3 pairs is .*; use the run itself$"
    with pytest.raises(ConfigError, match=said):
        export(translator.run.folder, tmp_path / "x", quantization=quantization)
    assert not [*tmp_path.iterdir()]


def test_export_of_weights_of_other_shapes_is_refused(translator: Translator, tmp_path: Path) -> None:
    run = translator.run
    model = deepcopy(translator.model)
    qkv = model.encoder.layers[0].self_attention.qkv
    qkv.weight = torch.nn.Parameter(torch.cat((qkv.weight, qkv.weight[:8])))
    with pytest.raises(ConfigError, match=r"^the model's code has weights of other shapes than the format: .*; use "):
        write_checked_model(model, tmp_path, run.codecs, run.checkpoint("best"))


def test_export_without_a_weight_of_the_format_is_refused(translator: Translator, tmp_path: Path) -> None:
    (model,) = deepcopy([*translator.engine.models])
    model.encoder.layers[0].self_attention.one = model.encoder.layers[0].self_attention.qkv
    del model.encoder.layers[0].self_attention.qkv
    with pytest.raises(ConfigError, match=r"^encoder\.layers\.0\.self_attention\.qkv\.weight: .* lacks this weight, "):
        write_model(model, tmp_path, source=["a"], target=["a"])
