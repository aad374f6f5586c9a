"""The Python API: arguments, errors that name Python's arguments, type checking, and docs/python.md."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

import transformer_cli
from python_page import PAGE, as_page, examples
from transformer_cli import (
    ArgumentError,
    CompareOptions,
    Config,
    ConfigError,
    DataError,
    Run,
    TfmError,
    Translator,
    compare,
    compare_groups,
    evaluate,
    inspect_sentence,
    load_config,
    prepare,
    score_pairs,
    train,
)
from transformer_cli.training import translation_score

SENTENCE = "Der alte Hund singt im Park."
OF_PAIRS = load_config(data={"corpus": "pairs"})
pytestmark = pytest.mark.usefixtures("few_samples")


def untyped(value: Any) -> Any:
    """Returns a value that type checkers do not check."""
    return value


@pytest.fixture(scope="module")
def here(project: Path) -> Path:
    return project / "runs/tiny"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda given: given.translate_detailed("Hund"), "sentences: 'Hund', where a list of str is wanted"),
        (lambda given: [*score_pairs(given, ["a"], [])], "score_pairs: 1 source and 0 targets; give as many"),
        (lambda given: [*score_pairs(given, "a", ["b"])], "pairs: 'a', where a list of str is wanted"),
        (lambda given: [*score_pairs(given, ["a"], "b")], "targets: 'b', where a list of str is wanted"),
        (lambda given: given.translate({"a": "Hund"}), "sentences: {'a': 'Hund'}, where a list of str is wanted"),
        (lambda given: given.translate(None), "sentences: None, where a list of str is wanted"),
        (lambda given: load_config("demo", untyped(3)), "overrides: 3, where a str such as"),
        (lambda given: load_config(untyped({"training": {}})),
         "path: a dict, where a name or a path is wanted; a dict"),
        (lambda given: compare(given, untyped("other")),
         "options: 'other', where CompareOptions is wanted; put systems"),
        (lambda given: [*given.stream("Hund", chunk=1)], "lines: 'Hund', where a list of str is wanted"),
        (lambda given: evaluate(given, lists=untyped("ab")), "lists: 'ab', where a list of str is wanted"),
        (lambda given: evaluate(given, lists=["ab", "cd"]), "lists, item 0: 'ab', where a list of str is wanted"),
        (lambda given: evaluate(given, files="ab"), "files: 'ab', where a list of str is wanted"),
        (lambda given: [*score_pairs(given, ["ab"])], "pairs, item 0: 'ab' is not a pair of texts"),
        (lambda given: [*score_pairs(given, [("a", "b", "c")])], "item 0: ('a', 'b', 'c') is not a pair"),
        (lambda given: [*score_pairs(given, untyped([3]))], "pairs, item 0: 3 is not a pair of texts"),
        (lambda given: [*score_pairs(given, untyped([("a", None)]))], "target: line 1: None, where a str is wanted"),
        (lambda given: [*score_pairs(given, ["a"], untyped(iter([3])))], "target: line 1: 3, where a str is wanted"),
        (lambda given: evaluate(given, lists=untyped(iter(["a"]))), "lists, item 0: 'a', where a list of str"),
        (lambda given: evaluate(given, lists=untyped([["a"], iter([3])])), "lists, item 1, item 0: 3, where a str"),
        (lambda given: prepare(OF_PAIRS, pairs=untyped([("a", "b")])), "pairs: a list, where a dict is wanted: "),
        (lambda given: prepare(OF_PAIRS, pairs=untyped({"train": 3})), "pairs['train']: 3, where a list of pairs"),
        (lambda given: given.translate(iter(["Hund", 3])), "line 2: 3, where a str is wanted"),
        (lambda given: given.with_options({"beam_size": 4}), "overrides: {'beam_size': 4}, where a str such as"),
        (lambda given: given.translate_file(b"a", "txt"), "file_format: 'txt' is none of text, html, "),
        (lambda given: [*given.stream(["a"], chunk=0)], "chunk: 0, where at least 1 is wanted"),
        (lambda given: compare(given, examples=-1), "examples: -1; give 0 or more"),
    ],
)  # fmt: skip
def test_wrong_argument_types_and_values_are_refused(
    translator: Translator, call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(ArgumentError, match=re.escape(said)) as caught:
        call(translator)
    assert isinstance(caught.value, TypeError)


def test_run_argument_is_name_path_or_opened_run(project: Path, tiny: Run, translator: Translator, here: Path) -> None:
    folders: Any = {"data_dir": str(project / "data"), "runs_dir": str(project / "runs")}
    named: Any = ("tiny", str(here), here, tiny, translator)
    found = [evaluate(each, splits="test", save_result=False, **folders)[0].result.bleu for each in named]
    assert len(set(found)) == 1
    systems = {"name": "tiny", "run": tiny, "open": translator}
    (comparison,) = compare(systems, CompareOptions(splits="test", device="cpu", **folders), examples=0)
    assert [(each.name, each.bleu.score) for each in comparison.systems] == [(name, found[0]) for name in systems]
    for each in (here, tiny, translator):
        assert inspect_sentence(each, SENTENCE).translation == translator.translate([SENTENCE])[0]
        assert [score.tokens for score in score_pairs(each, [(SENTENCE, "the old dog")])] == [4]
    as_str = untyped(str(project / "runs"))
    assert [each.folder for each in Translator("tiny", others="tiny", runs_dir=as_str).runs] == [here, here]
    assert Run.open(untyped(str(here))).folder == here
    with pytest.raises(DataError, match=r"^tiny: fewer than two runs have no spread; give at least two runs in each"):
        compare_groups({"a": "tiny"})
    assert CompareOptions(runs_dir=as_str).runs_dir == project / "runs"
    assert Translator(here, "cpu").translate([SENTENCE]) == Translator(tiny).translate([SENTENCE])


def test_what_a_person_tries_first_works(translator: Translator, corpus: Path, project: Path) -> None:
    from transformer_cli import Transformer, prepare, train

    assert isinstance(translator.model, Transformer)
    text = translator.translate(SENTENCE)
    assert [text] == translator.translate([SENTENCE])
    assert translator.translate([SENTENCE], beam_size=3) == translator.with_options(beam_size=3).translate([SENTENCE])
    both = [score_pairs(translator, [SENTENCE], [text]), score_pairs(translator, [(SENTENCE, text)])]
    assert [*both[0]] == [*both[1]]
    config = load_config("demo", training={"epochs": 1}, name="mine")
    assert (config.training.epochs, config.name) == (1, "mine")
    said = r'^epochs: a config cannot be changed; .* as in load_config\("demo", training='
    with pytest.raises(ConfigError, match=said):
        untyped(config.training).epochs = 2
    with pytest.raises(ConfigError, match=r"^epochs=1: epochs: unknown key; did you mean training\.epochs\?"):
        load_config("demo", epochs=1)
    assert not prepare(corpus / "tiny.yaml", data_dir=project / "data").created
    with pytest.raises(DataError, match="no dataset"):
        train("demo", data_dir=project / "none")
    evaluated = evaluate(translator, "test", save_result=False, data_dir=project / "data")
    assert [each.result.split for each in evaluated] == ["test"]


def test_compare_translators_of_one_run_by_names(project: Path, translator: Translator) -> None:
    both = {"greedy": translator, "beam": translator.with_options(beam_size=3)}
    (found,) = compare(both, CompareOptions(splits="test", data_dir=project / "data"), examples=0)
    assert [each.name for each in found.systems] == ["greedy", "beam"]
    assert [each.search for each in found.systems] == ["greedy", "beam 3, length penalty 1"]


def test_evaluate_lists_equals_files(corpus: Path, translator: Translator, project: Path) -> None:
    files = [corpus / "test.de", corpus / "test.en"]
    lists = [path.read_text("utf-8").split("\n")[:-1] for path in files]
    kept = project / "runs/tiny/evaluations.jsonl"
    before = kept.read_text() if kept.exists() else ""
    (by_lists,) = evaluate(translator, lists=lists, save_result=False)
    assert (kept.read_text() if kept.exists() else "") == before
    evaluate(translator, lists=lists)
    assert json.loads(kept.read_text().splitlines()[-1])["files"] == ["lists"]  # so not the BLEU of a split
    (by_files,) = evaluate(translator, files=[str(path) for path in files])
    assert (by_lists.result.bleu, by_lists.result.loss) == (by_files.result.bleu, by_files.result.loss)
    with pytest.raises(DataError, match=r"^lists: 2, 1 lines; give a list of sentences, then"):
        evaluate(translator, lists=[["a", "b"], ["c"]])
    with pytest.raises(DataError, match=r"^.*test\.de: sentences need references; name a file of references"):
        evaluate(translator, files=files[:1])
    with pytest.raises(ConfigError, match=r"^files, lists and splits cannot be combined; give one of them"):
        evaluate(translator, files=files, lists=lists)


@pytest.mark.parametrize("reference", ["\u09df\u09df \u09b9\u09df a b .", "Tie\u0302\u0301ng Vie\u0323\u0302t a b ."])
def test_metric_bleu_is_of_nfc_and_prepare_and_train_count_other_forms(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(translation_score, "greedy_translations", lambda *given: [normalize("NFC", reference)] * 2)
    model = {"d_model": 4, "num_heads": 1, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 4}
    training = {"epochs": 1, "warmup_steps": 0, "best_checkpoint_metric": "bleu"}
    data = {"corpus": "pairs", "target": "xx", "min_freq": 1}
    config = Config.model_validate({"name": "a", "data": data, "model": model, "training": training})
    prepare(config, pairs={"train": [("Hund", reference)] * 9, "valid": [("Hund", reference)] * 2}, data_dir=tmp_path)
    run = train(config, data_dir=tmp_path, runs_dir=tmp_path / "runs")
    assert [each["valid_score"] for each in run.history()] == [pytest.approx(100)]
    said = "valid: 2 of 2 references are not in NFC, the Unicode form that models write"
    assert [message.startswith(said) for message in caplog.messages].count(True) == 2


@pytest.mark.parametrize(
    "overrides",
    [{"training.epochs": 1}, {"training": {"epochs": 1}}, "training.epochs=1", ["training.epochs=1"]],
    ids=["dotted", "nested", "text", "list"],
)
def test_load_config_overrides_are_mapping_or_strings(overrides: Any) -> None:
    changed = load_config("demo", overrides)
    training = load_config("demo").training.model_copy(update={"epochs": 1})
    assert changed == load_config("demo").model_copy(update={"training": training})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda given: given.translate(["Hund", "a\ud800b"]), "line 2: character 2: a lone surrogate ("),
        (lambda given: given.translate_html("a\udcffb"), "character 2: a lone surrogate ("),
        (lambda given: [*score_pairs(given, [("a", "\ud800")])], "target: line 1: character 1: a lone surrogate"),
        (lambda given: evaluate(given, lists=[["a"], ["\udcff"]]), "lists, item 1, item 0: character 1: a lone "),
        (lambda given: given.with_options(prefix="\ud800").translate(["a"]), "prefix: character 1: a lone surrogate"),
        (lambda given: given.with_terms({"a": "\ud800"}), "glossary: 'a' with '\\ud800': '\\ud800' is not allowed in"),
        (lambda given: given.with_options(glossary="g.csv"), "must be a mapping of words to their translations, not g"),
        (lambda given: evaluate(given, lists=[]), "lists: 0 lines; give a list of sentences"),
        (lambda given: evaluate(given, files=()), "files: empty; name a file of sentences"),
        (lambda given: evaluate(given, lists=[["a"], ["a"]], splits="test"), "files, lists and splits cannot be com"),
        (lambda given: compare([], CompareOptions()), "nothing to compare; name at least two runs or files"),
        (lambda given: compare_groups({"a": []}), "an empty group: fewer than two runs have no spread"),
        (lambda given: Run.open(untyped("nope")), "nope: no run here"),
        (lambda given: evaluate("a" * 300), ": File name too long; runs/ has "),
        (lambda given: inspect_sentence(given, " "), "the sentence has no letter, so there is nothing to inspect"),
        (lambda given: given.run.set_pointer("best", "step-1234567"), "no checkpoint 'step-1234567' for best"),
        (lambda given: load_config("demo", {"training.epochs": 0}), "training.epochs=0: training.epochs: must be at l"),
        (lambda given: load_config("demo", ["training.epochs=0"]), "training.epochs=0: training.epochs: must be at l"),
        (lambda given: load_config("demo", {"training": {"epoch": 1}}), "training.epoch=1: training.epoch: unknown"),
        (lambda given: Config(model=untyped({"d_model": 20})), "Config: model: num_heads: "),
        (lambda given: Config(**untyped({"modl": 3})), "Config: modl: unknown key; did you mean model?"),
        (lambda given: given.run.set_pointer("bset", "step-1234567"), "'bset' is not a pointer; the pointers are best"),
    ],
)  # fmt: skip
def test_unusable_arguments_raise_one_line(translator: Translator, call: Callable[[Any], object], said: str) -> None:
    with pytest.raises(TfmError, match=re.escape(said)) as caught:
        call(translator)
    assert "--" not in str(caught.value)  # the names are Python's


def test_repr_of_a_translator_is_one_line(translator: Translator) -> None:
    shown = repr(translator.with_options(beam_size=4))
    assert re.fullmatch(r"Translator\(\S+/tiny/\S+: de → en, beam 4, length penalty 1, on \S+.*\)", shown)


PROGRAM = """\
from transformer_cli import CompareOptions, DataError, Translator, compare, evaluate, load_config, prepare, train

config = load_config("demo-captions", {"training.epochs": 1})
prepare(config)
run = train(config)
translator = Translator(run).with_options(beam_size=5, prefix="A")
texts: list[str] = translator.translate(["Ein Hund läuft."])
bleu: float = evaluate(run, splits="test", metrics="ter")[0].result.bleu
for each in compare({"greedy": run, "beam": translator}, CompareOptions(splits="test"))[0].systems:
    print(each.name, each.bleu.score, each.verdict, str(DataError("x")), texts, bleu)
"""
# what torch and others say of themselves takes mypy 20 s to read, and nothing of it is in the program
QUICK = "[mypy]\n[mypy-torch.*,numpy.*,matplotlib.*,pydantic.*]\nfollow_imports = skip\n"
WRONG = "translator.translate(3)\nevaluate(run, splits=3)\ntrain(3)\n"


@pytest.mark.parametrize(
    "checker", [["mypy", "--strict"], ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"]
)
def test_type_checkers_accept_a_program_and_find_errors(checker: list[str], tmp_path: Path) -> None:
    found = shutil.which(checker[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    paths = [sys.executable, "-c", "import sys; print(sys.path)"]
    listed = subprocess.run(paths, capture_output=True, text=True).stdout
    if not found or repr(str(Path(transformer_cli.__file__).parents[1])) not in listed:
        pytest.skip(f"{checker[0]} is not installed, or tfm in another way than `make install` does")
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    (tmp_path / "mypy.ini").write_text(QUICK)
    done = subprocess.run([found, *checker[1:], "program.py"], cwd=tmp_path, capture_output=True, text=True)
    first_wrong = PROGRAM.count("\n") + 1
    assert {int(line) - first_wrong for line in re.findall(r"program\.py:(\d+)", done.stdout)} == {0, 1, 2}, done.stdout


def test_star_import_has_all_public_names() -> None:
    found: dict[str, object] = {}
    exec("from transformer_cli import *", found)
    del found["__builtins__"]
    assert found.keys() > transformer_cli._HOME.keys() | {"TfmError", "DataError", "Interrupted"}
    assert all(each.__module__.startswith("transformer_cli.") for each in map(untyped, found.values()))


def test_python_page_equals_docstrings_with_examples() -> None:
    """`python scripts/python_page.py` updates the page."""
    text = PAGE.read_text(encoding="utf-8")
    assert as_page(text) == text
    shown = examples(text)
    called = {name for name in transformer_cli._HOME if not isinstance(getattr(transformer_cli, name), type)}
    assert {name for name in called if not re.search(rf"\b{name}\(", shown.get(name, ""))} == set()


@pytest.mark.usefixtures("no_curves")
def test_python_page_examples_run(workspace: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (corpus / "tiny.yaml").read_text("utf-8").replace("name: tiny", "name: mine")
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            shutil.copy(corpus / f"{split}.{language}", workspace)
    (workspace / "mine.yaml").write_text(small, encoding="utf-8")
    program = "\n".join(examples(PAGE.read_text(encoding="utf-8")).values())
    monkeypatch.chdir(workspace)
    exec(program, {"__name__": "__main__"})
