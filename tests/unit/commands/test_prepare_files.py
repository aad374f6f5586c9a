"""`tfm prepare FILE…`: from users' files to a dataset, a config, and the next command."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kinds import Tfm
from transformer_cli import Translator
from transformer_cli.adapters.corpora import recipe
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, FilePair
from transformer_cli.data.dataset import Dataset
from transformer_cli.runs.run import Run
from transformer_cli.text.codec import SIDES

LANGUAGES = ("--source", "de", "--target", "en")
SMALL = ("model.d_model=32", "model.d_ff=32", "model.num_encoder_layers=1", "training.epochs=1", "training.shards=1")


@pytest.fixture
def files(corpus: Path, tmp_path: Path) -> Path:
    """A folder with memory.tsv, whose 200 pairs are those of the corpus, and the corpus's files."""
    for path in corpus.glob("*.??"):
        shutil.copy(path, tmp_path)
    sides = [(corpus / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    rows = "".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
    (tmp_path / "memory.tsv").write_text(rows, encoding="utf-8")
    return tmp_path


def sets(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def dataset(folder: Path, out: str) -> Dataset:
    return Dataset.open(folder / out.split("\n")[0])


@pytest.mark.parametrize("name", ["memory.tsv", "memory.csv", "memory.jsonl"])
def test_prepare_files_writes_config_for_training(tfm: Tfm, files: Path, name: str) -> None:
    pairs = [line.split("\t") for line in (files / "memory.tsv").read_text(encoding="utf-8").splitlines()]
    if name == "memory.csv":
        rows = "".join(f'"{source}";"{target}"\r\n' for source, target in [("Source", "Target"), *pairs])
        (files / name).write_bytes(rows.encode("utf-16"))
    elif name == "memory.jsonl":
        objects = ({"translation": {"en": target, "de": source}} for source, target in pairs)
        (files / name).write_text("".join(f"{json.dumps(each)}\n" for each in objects), encoding="utf-8")
    share = "data.held_out={valid: 0.1, test: 0.1}"
    code, out, err = tfm("prepare", name, *LANGUAGES, *sets(share, *SMALL), cwd=files)
    assert code == 0, err
    assert out.endswith("wrote memory.yaml; next: tfm train --config memory.yaml\n")
    text = (files / "memory.yaml").read_text(encoding="utf-8")
    assert f"\n    train: [{name}]\n" in text.replace("\n      - ", " [").replace(f"{name}\n", f"{name}]\n")
    assert "; change what you like.\n# 1 epoch, dropout 0, label smoothing 0.1: for " in text[:150]
    assert "hypotheses in beam search; 5 take 2.7" in text
    chosen = load_config(files / "memory.yaml")
    assert (chosen.decoding.beam_size, chosen.training.best_checkpoint_metric) == (5, "last")
    assert str(files) not in text  # paths are relative, so the folder can be moved
    made = dataset(files, out)
    assert sum(made.manifest["cleaning"]["splits"].values()) == 200
    assert not (made.folder / "left-out.tsv.gz").exists()  # nothing was left out
    again = tfm("prepare", name, *LANGUAGES, cwd=files)
    assert (again[0], again[1].split("\n")[0]) == (0, out.split("\n")[0])
    assert "already prepared" in again[2]
    assert (files / "memory.yaml").read_text(encoding="utf-8") == text
    if name == "memory.tsv":
        code, _, err = tfm("train", "--config", "memory.yaml", cwd=files)
        assert code == 0, err
        code, out, err = tfm("translate", "--run", "memory", "Der alte Mann singt.", cwd=files)
        assert (code, out.count("\n")) == (0, 1), err


def test_prepare_minutes_decide_how_new_run_is_trained(tfm: Tfm, files: Path) -> None:
    small = sets("model.d_model=8", "model.d_ff=8", "training.shards=1", "data.held_out.valid=0.1")
    command = ("prepare", "memory.tsv", *LANGUAGES, "--minutes", "0.1")
    code, _, err = tfm(*command, *small, cwd=files)
    assert code == 0, err
    assert "tip: if OPUS-MT has a translator de→en, begin with it" in err
    training = load_config(files / "memory.yaml").training
    plan = r"(\d+) epochs?, dropout [\d.]+, label smoothing ([\d.]+): for 1\d\d pairs and 0\.1 minutes"
    (said,) = re.findall(plan, err)
    assert said == (str(training.epochs), f"{training.label_smoothing:g}")
    code, _, err = tfm(
        *command, *sets("model.d_ff=1000000", "model.num_encoder_layers=1000"), "--name", "huge", cwd=files
    )
    assert (code, "memory" in err.split("tfm: error: ")[1]) == (1, True)
    code, _, err = tfm(*command, cwd=files)
    assert (code, "--minutes and --monolingual are for a new config, but memory.yaml exists" in err) == (2, True)


def test_prepare_chooses_more_layers_where_there_is_time_for_them(
    tfm: Tfm, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed(config: Config, *_: object) -> float:  # consistency reads each batch twice
        return 4000 / config.model.num_encoder_layers / (2 if config.training.consistency else 1)

    monkeypatch.setattr(recipe, "tokens_per_second", speed)
    command = ("prepare", "memory.tsv", *LANGUAGES, *sets("training.batch_size=40"))
    expected = {
        "1": (2, 2, 512, 0.0, 63),
        "4": (4, 4, 256, 3.0, 63),
        "30": (4, 4, 256, 3.0, 250),
        "30 model.dropout=0": (2, 2, 512, 0.0, 250),
        "4 training.consistency=0": (4, 4, 256, 0.0, 126),
        "4 training.consistency=2": (4, 4, 256, 2.0, 63),
        "0.1 training.consistency=2": (2, 2, 512, 2.0, 3),
    }
    for number, case in enumerate(expected):
        minutes, *settings = case.split()
        code, _, err = tfm(*command, "--name", f"a{number}", "--minutes", minutes, *sets(*settings), cwd=files)
        assert code == 0, err
        config = load_config(files / f"a{number}.yaml")
        layers = config.model.num_encoder_layers, config.model.num_decoder_layers
        assert ("4 + 4 layers, " in err) == (layers == (4, 4))
        assert (*layers, config.model.d_ff, config.training.consistency, config.training.epochs) == expected[case]


def test_prepare_both_directions_gives_a_model_of_both(tfm: Tfm, files: Path) -> None:
    small = sets(*SMALL, "data.held_out={valid: 0.1, test: 0.1}", "training.batch_size=20")
    code, out, err = tfm("prepare", "memory.tsv", *LANGUAGES, "--both-directions", *small, cwd=files)
    assert code == 0, err
    assert "\ntrain has each pair in both directions: `tfm translate` writes en; with --to de, de\nwrote" in out
    made = dataset(files, out)
    sizes = {split: counts["sentences"] for split, counts in made.manifest["splits"].items()}
    assert sizes == {**made.manifest["cleaning"]["splits"], "train": 2 * made.manifest["cleaning"]["splits"]["train"]}
    trained = {line.removeprefix("<2de> ") for side in SIDES for line in made.text("train", side)}
    assert trained.isdisjoint(line for split in ("valid", "test") for side in SIDES for line in made.text(split, side))
    code, _, err = tfm("train", "--config", "memory.yaml", cwd=files)
    assert code == 0, err
    into_en, into_de = (
        json.loads(tfm("evaluate", *to, "--json", cwd=files)[1])["results"][0] for to in ((), ("--to", "deu"))
    )
    assert (into_en["split"], into_de["split"]) == ("test", "test into de")
    texts = [files / f"{made.folder}/test.{side}.txt" for side in SIDES]
    named = ("evaluate", "--to", "de", "--input", texts[1], "--reference", texts[0], "--json")
    assert json.loads(tfm(*named, cwd=files)[1])["results"][0]["loss"] == into_de["loss"] != into_en["loss"]
    for side in SIDES:
        lines = made.text("train", side)[:5]
        (files / f"{side}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    of_train = ("evaluate", "--to", "de", "--input", files / "target.txt", "--reference", files / "source.txt")
    assert "also in the training text: 5 of 5 lines, 5 of 5 references" in tfm(*of_train, cwd=files)[2]
    for to, source in (((), "Der alte Mann singt."), (("--to", "de"), "The old man sings.")):
        assert tfm("translate", *to, source, cwd=files)[0] == 0
    code, again, err = tfm("prepare", "memory.tsv", *LANGUAGES, "--both-directions", cwd=files)
    assert (code, again) == (0, out.replace("wrote memory.yaml; ", "")), err
    code, out, err = tfm("prepare", "memory.tsv", "--like", "memory", "--name", "more", cwd=files)
    assert (code, dataset(files, out).codecs) == (0, made.codecs), err
    assert "train has each pair in both directions" in out


def test_prepare_grown_files_keeps_held_out_pairs(tfm: Tfm, files: Path) -> None:
    share = "data.held_out.valid=0.1"
    first = dataset(files, tfm("prepare", "memory.tsv", *LANGUAGES, *sets(share, "training.epochs=30"), cwd=files)[1])
    held_out = load_config(files / "memory.yaml").data.held_out
    mine = (files / "memory.yaml").read_text().replace("epochs: 30 ", "epochs: 7 # mine ")
    (files / "memory.yaml").write_text(f"{mine}  # below\n# the end\n")
    names = ("memory.tsv", "test.en", "valid.de", "valid.en", "test.de")
    code, out, err = tfm("prepare", *names, "--name", "memory", *LANGUAGES, *sets(share), cwd=files)
    assert code == 0, err
    config = load_config(files / "memory.yaml")
    pairs = [FilePair(source=files / f"{split}.de", target=files / f"{split}.en") for split in ("test", "valid")]
    assert config.data.files == {"train": (files / "memory.tsv", *pairs)}
    assert (config.data.held_out, config.training.epochs) == (held_out, 7)
    assert (files / "memory.yaml").read_text().endswith("\n  # below\n# the end\n")
    assert set(first.text("valid", "source")) < set(dataset(files, out).text("valid", "source"))


def test_prepare_files_keeps_splits_of_the_config(tfm: Tfm, files: Path) -> None:
    pair = "{source: valid.de, target: valid.en}"
    own = f"data: {{corpus: files, files: {{train: x.tmx, valid: {pair}}}, min_freq: 1}}\n"
    (files / "own.yaml").write_text(own, encoding="utf-8")
    code, out, err = tfm("prepare", "memory.tsv", *LANGUAGES, "--config", "own.yaml", cwd=files)
    assert code == 0, err
    for _ in range(2):
        config = load_config(files / "memory.yaml")
        assert dict(config.data.texts).keys() == {"train.1", "valid.source", "valid.target"}
        assert (config.data.held_out.valid, config.data.min_freq) == (0.0, 1)
        assert tfm("prepare", "memory.tsv", *LANGUAGES, cwd=files)[1] == out.replace("wrote memory.yaml; ", "")


def test_prepare_dry_run_prints_cleaning_and_writes_nothing(tfm: Tfm, files: Path) -> None:
    with (files / "memory.tsv").open("a", encoding="utf-8") as file:
        file.write("<p>Der Hund</p>\tThe dog\n" * 2)
    before = sorted(files.iterdir())
    share = sets("data.held_out.valid=0.1")
    code, out, err = tfm("prepare", "memory.tsv", *LANGUAGES, *share, "--dry-run", cwd=files)
    assert code == 0, err
    lines = out.split("\n")
    assert lines[:2] == ["        202  pairs read", "         -2  markup"]
    assert lines[2].strip() == f"{files}/memory.tsv: line 201: <p>Der Hund</p> | The dog"
    assert sorted(files.iterdir()) == before
    code, out, _ = tfm("prepare", "memory.tsv", *LANGUAGES, *share, "--dry-run", "--json", cwd=files)
    assert json.loads(out)["left_out"]["markup"] == 2
    code, out, err = tfm("prepare", "--dry-run", "--config", "demo-captions", cwd=files)
    assert out.split() == ["12,000", "pairs", "read", "12,000", "train", "500", "valid", "500", "test"], err


def test_prepare_config_with_file_lists_cleans_only_on_request(tfm: Tfm, files: Path) -> None:
    (files / "more.jsonl").write_text('{"de": "Hallo Welt", "en": "Hallo Welt"}\n', encoding="utf-8")
    (files / "own.yaml").write_text(
        "data: {corpus: files, files: {train: [memory.tsv, {source: test.de, target: test.en}, more.jsonl], "
        "valid: {source: valid.de, target: valid.en}, third: [memory.tsv]}}\n",
        encoding="utf-8",
    )
    found = dataset(files, tfm("prepare", "--config", "own.yaml", cwd=files)[1])
    sizes = {split: counts["sentences"] for split, counts in found.manifest["splits"].items()}
    assert sizes == {"train": 231, "valid": 40, "third": 200}
    rules = sets("data.clean=[copies, held_out]")
    cleaned = dataset(files, tfm("prepare", "--config", "own.yaml", *rules, cwd=files)[1])
    assert (cleaned.folder / "left-out.tsv.gz").is_file()
    left_out = cleaned.manifest["cleaning"]["left_out"]
    assert left_out == {"copies": 1, "held_out": 200}  # the third split is in the training text
    assert all(not any(found.values()) for found in cleaned.manifest["overlap"].values())


def test_prepare_like_run_with_other_vocabulary_warns(
    tfm: Tfm, files: Path, tiny: Run, by_subwords: Translator
) -> None:
    text = [f"Он читает {'а' * n} книг\tHe reads {'a' * n} books" for n in range(1, 60)]
    (files / "ru.tsv").write_text("\n".join(text), encoding="utf-8")
    for run in (tiny.folder, by_subwords.run.folder):
        like = ("--like", run, "--name", run.parents[1].name, *sets("data.clean=[]"))
        code, _, err = tfm("prepare", "ru.tsv", *like, cwd=files)
        said = [line for line in err.split("\n") if "train, source: " in line]
        assert code == 0, err
        assert said[0].endswith(f"of the tokens are unknown to the codec of {run}: is it text of the same kind?")
        data = load_config(files / f"{run.parents[1].name}.yaml").data
        assert data.held_out.valid == 0.1  # more than the 5 pairs of a new model's 59


def test_prepare_like_and_train_from_copy_fixed_settings(tfm: Tfm, files: Path, project: Path, tiny: Run) -> None:
    shutil.copytree(project / "runs", files / "runs")
    share = sets("data.held_out.valid=0.1")
    code, out, err = tfm("prepare", "memory.tsv", "--like", "tiny", *share, cwd=files)
    assert code == 0, err
    assert "tip: with --replay FILE, sentences of the kind that tiny was trained on, it forgets less" in err
    config = load_config(files / "memory.yaml")
    assert (config.data.tokenizer_from, config.training.initialize_from) == ("tiny", "tiny")
    assert config.model == tiny.config.model
    assert config.data.codec_settings == tiny.config.data.codec_settings
    assert dataset(files, out).codecs == tiny.codecs
    of_run = ("--config", "runs/tiny/config.yaml", "--name", "x")
    code, _, err = tfm("prepare", "memory.tsv", *LANGUAGES, *of_run, cwd=files)
    assert (code, load_config(files / "x.yaml").data.fingerprint) == (0, None), err  # not that of the run's text
    quick = sets("training.epochs=1", "training.precision=float32")
    code, _, err = tfm("train", "--config", "x.yaml", "--from", "tiny", *quick, cwd=files)
    assert code == 0, err  # for the same text has the same vocabularies
    assert tfm("prepare", "--config", "x.yaml", *sets("data.min_freq=3", "name=rare"), cwd=files)[0] == 0
    rare = (*sets("name=rare", "data.skip_empty=true"), *quick)
    code, _, err = tfm("train", "--config", "x.yaml", "--from", "tiny", *rare, cwd=files)
    assert (code, "run `tfm prepare` with the same --config and --set, and --like tiny" in err) == (1, True)
    code, _, err = tfm("train", "--config", "memory.yaml", *quick, cwd=files)
    assert code == 0, err
    own: dict[str, Any] = {"corpus": "files", "files": {"train": ["memory.tsv"]}, "held_out": {"valid": 0.1}}
    (files / "own.yaml").write_text(json.dumps({"name": "own", "data": own}), encoding="utf-8")
    assert tfm("prepare", "--config", "own.yaml", "--like", "tiny", cwd=files)[0] == 0
    code, _, err = tfm("train", "--config", "own.yaml", "--from", "tiny", *quick, cwd=files)
    assert code == 0, err
    assert Run.open(files / "runs/own").codecs == tiny.codecs
    code, _, err = tfm("train", "--config", "own.yaml", "--from", "nobody", cwd=files)
    assert (code, "nobody" in err) == (1, True)
