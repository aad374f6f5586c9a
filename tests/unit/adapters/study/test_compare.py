"""Comparing runs and files: the same text for all, the same case for all, and one clear line where that cannot be."""

import logging
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
from safetensors.numpy import load, save

from sealed import edit_sealed, reseal, set_config
from transformer_cli import CompareOptions, compare, compare_groups, evaluate
from transformer_cli.adapters.study.compare import Comparison, Example
from transformer_cli.adapters.study.statistics import PairedScore, welch
from transformer_cli.data.dataset import find_dataset
from transformer_cli.errors import CheckpointError, ConfigError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.system.files import write_text
from transformer_cli.translate import RunLike

pytestmark = pytest.mark.usefixtures("few_samples")


@pytest.fixture
def options(project: Path) -> CompareOptions:
    """The test set of the project, on the CPU."""
    return CompareOptions(device="cpu", data_dir=project / "data", runs_dir=project / "runs")


@pytest.fixture
def references(corpus: Path) -> list[str]:
    return (corpus / "test.en").read_text("utf-8").split("\n")[:-1]


def file_of(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def altered(run: Run, folder: Path, **data: object) -> str:
    """A copy of a run with other settings of its data."""
    shutil.copytree(run.folder, folder)
    changed = run.config.model_copy(update={"data": run.config.data.model_copy(update=data)})
    set_config(folder, changed)
    return str(folder)


def examples_of(comparison: Comparison[PairedScore]) -> list[Example]:
    return comparison.systems[1].examples


def words_of(comparison: Comparison[PairedScore]) -> str:
    return str(comparison.systems[1].verdict)


def test_compare_run_with_file_scores_both(
    options: CompareOptions, tmp_path: Path, references: list[str], tiny: Run
) -> None:
    worse = file_of(tmp_path / "worse", ["nothing at all" if row % 2 else line for row, line in enumerate(references)])
    (comparison,) = compare(["tiny", worse], options)
    (judged,) = evaluate(tiny.folder, data_dir=options.data_dir)
    first, second = comparison.systems
    assert (comparison.split, comparison.sentences) == ("test", 30)
    assert (first.name, first.bleu.score, first.chrf.score) == ("tiny", judged.result.bleu, judged.result.chrf)
    for ours, theirs in ((first.bleu, judged.result.bleu_interval), (first.chrf, judged.result.chrf_interval)):
        assert theirs is not None
        assert (ours.interval.mean, ours.interval.half_width) == pytest.approx((theirs.mean, theirs.half_width))
    assert (first.bleu.difference, first.verdict, first.examples) == (None, None, [])
    lines = Path(worse).read_text("utf-8").split("\n")[:-1]
    assert second.bleu.score == pytest.approx(sacrebleu.corpus_bleu(lines, [references], lowercase=True).score)
    assert second.bleu.difference
    assert second.bleu.difference.points == second.bleu.score - first.bleu.score < -10
    assert words_of(comparison).startswith(f"tiny is better than {worse} by ")
    assert "case:lc" in comparison.signatures["BLEU"][0]


def test_compare_examples_differ_most_in_chrf(options: CompareOptions, tmp_path: Path, references: list[str]) -> None:
    sources = file_of(tmp_path / "sources", [f"Satz {number}" for number in range(1, 31)])
    reference = file_of(tmp_path / "reference", references)
    wrong = [*references]
    wrong[3], wrong[8] = "nothing at all", references[8].replace("The", "A")
    options = CompareOptions(sources=Path(sources), references=[Path(reference)])
    names = [file_of(tmp_path / "wrong", wrong), reference]
    (comparison,) = compare(names, options)
    first, second = examples_of(comparison)
    assert (first.line, first.source, first.reference) == (4, "Satz 4", references[3])
    assert first.translations == ("nothing at all", references[3])
    assert first.chrf[0] < 30 < 99 < first.chrf[1]
    assert second.line == 9
    assert compare(names, options, examples=1)[0].systems[1].examples == [first]
    assert compare(names, options, examples=0)[0].systems[1].examples == []
    assert comparison.split == "sources"


def test_compare_files_need_no_sources_and_keep_case(tmp_path: Path, references: list[str]) -> None:
    reference = Path(file_of(tmp_path / "reference", references))
    names = [str(reference), file_of(tmp_path / "lower", [line.lower() for line in references])]
    (comparison,) = compare(names, CompareOptions(references=[reference]))
    assert "case:mixed" in comparison.signatures["BLEU"][0]
    assert "case:mixed" in comparison.signatures["chrF"][0]
    assert "tok:13a" in comparison.signatures["BLEU"][0]
    assert examples_of(comparison)[0].source is None
    assert words_of(comparison).startswith(f"{names[0]} is better")
    (comparison,) = compare(names, CompareOptions(references=[reference], lowercase=True, language="zh"))
    assert "tok:zh" in comparison.signatures["BLEU"][0]
    said = f"{names[1]} and {names[0]} have equal scores: 30 sentences show no difference at all"
    assert words_of(comparison) == said


def test_compare_lowercased_run_scores_all_without_case(
    options: CompareOptions, tiny: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cased = altered(tiny, tmp_path / "cased", lowercase=False)
    with caplog.at_level(logging.INFO, "transformer_cli"):
        (comparison,) = compare(["tiny", cased], replace(options, splits=("valid",)))
    assert caplog.messages == ["tiny: lower-cased, so all are scored without case"]
    assert "case:lc" in comparison.signatures["chrF"][1]
    caplog.clear()
    with caplog.at_level(logging.INFO, "transformer_cli"):
        compare(["tiny", altered(tiny, tmp_path / "copy")], options)
    assert caplog.messages == []


def test_compare_warns_of_other_split_and_of_training_text(
    options: CompareOptions, tiny: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = find_dataset(tiny.config.data, options.data_dir)
    data_dir = tmp_path / "data"
    shutil.copytree(dataset, data_dir / dataset.name)
    other = shutil.copytree(dataset, data_dir / "files.de-en-00000000")
    edit_sealed(other / "manifest.json", lambda manifest: manifest.update(fingerprint="00000000"))
    lines = (other / "test.target.txt").read_text("utf-8").split("\n")
    write_text(other / "test.target.txt", "\n".join(["Another text.", *lines[1:]]))
    reseal(other)
    name = altered(tiny, tmp_path / "other", fingerprint="00000000")
    gone = altered(tiny, tmp_path / "gone", fingerprint="11111111")
    compare(["tiny", name, gone], replace(options, data_dir=data_dir), examples=0)
    said = "in its own dataset, test is another text; make sure that the run was not trained on this one"
    assert caplog.messages == [f"{name}: {said}"]
    source, target = (
        file_of(tmp_path / f"own.{side}", (dataset / f"train.{side}.txt").read_text("utf-8").split("\n")[:2])
        for side in ("source", "target")
    )
    caplog.clear()
    own = replace(options, splits=(), sources=source, references=target, data_dir=data_dir)
    compare(["tiny", gone], own, examples=0)
    said = "own.source: also in the training text: 2 of 2 lines, 2 of 2 references; "
    assert [message[: len(said)] for message in caplog.messages] == [said]


def test_compare_and_evaluate_warn_of_suspicious_files(
    options: CompareOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["Der Hund singt laut.", "Die Hunde laufen."]
    source, quoted = (file_of(tmp_path / name, each) for name, each in (("a", lines), ("b", [f'"{x}"' for x in lines])))
    compare([quoted, source], CompareOptions(splits=(), sources=Path(source), references=[Path(source)]), examples=0)
    said = "the same text as the source; is this the right one?"
    assert caplog.messages == [
        f"text in quotation marks ({quoted}: '\"Die Hunde laufen.\"'): take them off, unless they are meant",
        f"a, reference; {source}: {said}",
    ]
    caplog.clear()
    evaluate("tiny", files=[source, source, quoted], device="cpu", runs_dir=options.runs_dir, save_result=False)
    assert caplog.messages[:2] == [
        "text in quotation marks (a, reference 2: '\"Die Hunde laufen.\"'): take them off, unless they are meant",
        f"a, reference: {said}",
    ]


def test_compare_long_sentences_are_truncated_and_counted(
    options: CompareOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = file_of(tmp_path / "a", ["Hund " * 15, "Hund"])
    other = file_of(tmp_path / "b", ["the dog sings here", "dog"])
    named = replace(options, splits=(), sources=Path(source), references=[Path(other)])
    compare(["tiny", other], named)
    assert caplog.messages == [f"{options.runs_dir / 'tiny'}: a: 1 sentence too long: truncated"]


def test_compare_tests_scores_of_sentences(tmp_path: Path, references: list[str], tiny: Run) -> None:
    lines = [*references, ""]  # a blank line is not scored
    reference = file_of(tmp_path / "reference", lines)
    rows = {name: [*map(str, range(first, first + 30)), "1000"] for name, first in (("a", 1), ("b", 3))}
    files = [file_of(tmp_path / name, each) for name, each in rows.items()]
    options = CompareOptions(references=reference, scores={"human": files})
    copy = file_of(tmp_path / "copy", lines)
    (comparison,) = compare([reference, copy], options)
    one, other = (each.scores["human"] for each in comparison.systems)
    assert (one.score, other.score) == (15.5, 17.5)
    assert other.difference
    assert other.difference.points == 2.0
    assert (other.difference.p or 1.0) < 0.05
    assert comparison.signatures["human"] == ["scores:given|seed:12345|bs:200", "scores:given|seed:12345|ar:200"]
    named = [[reference, copy], [file_of(tmp_path / "c", lines), file_of(tmp_path / "d", lines)]]
    (found,) = compare_groups(named, replace(options, scores={"human": [*files, *files]}))
    assert [each.scores["human"].scores for each in found.systems] == [[15.5, 17.5]] * 2


def test_compare_refuses_wrong_scores(
    options: CompareOptions, tiny: Run, tmp_path: Path, references: list[str]
) -> None:
    good = file_of(tmp_path / "good", ["-1.5e-1"] * 30)
    short = file_of(tmp_path / "short", ["1"])
    copy = altered(tiny, tmp_path / "copy")
    for splits, scores, message in (
        ("test", {"human": good}, "^scores: human has 1 of 2 files; name one for each run or file$"),
        ("test", {"human": [good, short]}, f"^{short} has 1 line, test has 30; line n must belong to line n$"),
        ("test", {"BLEU": [good, good]}, "^scores: BLEU is a metric that is computed here; choose another name$"),
        ("test", {"ter": [good, good]}, "^scores: ter is a metric that is computed here; choose another name$"),
        (("valid", "test"), {"human": [good, good]}, "^files belong to one text, but there are valid, test; name one"),
    ):
        with pytest.raises(DataError, match=message):
            compare(["tiny", copy], replace(options, splits=splits, metrics="ter", scores=scores))
    for wrong in ("", "nan", "inf", "1,5", "1 2", "score: 3", "１", "1e999", "1_0"):
        bad = file_of(tmp_path / "bad", [*["2"] * 29, wrong])
        said = f"^{bad}: line 30 is not a number; write the score of one sentence per line$"
        with pytest.raises(DataError, match=said):
            compare(["tiny", copy], replace(options, scores={"human": [good, bad]}))


def test_compare_reads_translations_from_a_pipe(tmp_path: Path, references: list[str]) -> None:
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{line}\n" for line in references).encode())
    os.close(writing)
    reference = file_of(tmp_path / "reference", references)
    (comparison,) = compare([reference, f"/dev/fd/{reading}"], CompareOptions(references=[Path(reference)]))
    os.close(reading)
    assert comparison.systems[1].bleu.score == pytest.approx(100)


def test_compare_groups_uses_spread_of_runs(tmp_path: Path, references: list[str]) -> None:
    names, scores = [], []
    for number, step in enumerate((2, 3, 10, 15)):
        lines = ["nothing" if row % step == 0 else line for row, line in enumerate(references)]
        names.append(file_of(tmp_path / str(number), lines))
        scores.append(sacrebleu.corpus_bleu(lines, [references], lowercase=False).score)
    reference = Path(file_of(tmp_path / "reference", references))
    (found,) = compare_groups([names[:2], names[2:]], CompareOptions(references=[reference]))
    one, other = found.systems
    assert (found.sentences, one.name, other.name) == (30, ",".join(names[:2]), ",".join(names[2:]))
    assert (one.bleu.scores, other.bleu.scores) == (scores[:2], scores[2:])
    assert other.chrf.mean == pytest.approx(sum(other.chrf.scores) / 2)
    assert other.chrf.standard_deviation == pytest.approx(abs(other.chrf.scores[0] - other.chrf.scores[1]) / 2**0.5)
    assert (one.bleu.difference, one.verdict) == (None, None)
    assert other.bleu.difference == welch(other.bleu.scores, one.bleu.scores)
    assert str(other.verdict).startswith(f"2 and 2 runs cannot tell {','.join(names[2:])} and {','.join(names[:2])} ")
    assert "bs:" not in found.signatures["BLEU"][0]


def test_compare_three_sentences_show_no_difference(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blank = [""] * 20  # which are no sentences
    first = [f"the {who} runs at home" for who in ("dog", "cat", "man")]
    reference = file_of(tmp_path / "r", [*first, *blank])
    worse = file_of(tmp_path / "worse", ["the dog runs", "x", "y", *blank])
    with caplog.at_level(logging.INFO):
        (comparison,) = compare([reference, worse], CompareOptions(references=[Path(reference)]))
    assert {record.name.partition(".")[0] for record in caplog.records} <= {"transformer_cli"}  # sacreBLEU is quiet
    said = words_of(comparison)
    assert said.startswith(f"3 sentences cannot tell {worse} and {reference} apart: ")
    assert said.count("(p = 0.250)") == 2


def test_compare_wrong_arguments_raise(
    options: CompareOptions, tiny: Run, tmp_path: Path, references: list[str]
) -> None:
    reference, short = file_of(tmp_path / "reference", references), file_of(tmp_path / "short", ["one"])
    empty = file_of(tmp_path / "empty", [])
    reversed_run = altered(tiny, tmp_path / "reversed", source="en", target="de")
    lengths = f"^{short} has 1 line, .* has 30; line n must belong to line n"
    for names, wrong_terms, message in (
        ([short, "nothing"], CompareOptions(), r"no such run; runs/ has none; and there is no file nothing$"),
        ([short, str(tmp_path)], CompareOptions(), r"no run here \(run.json is missing\); `tfm train` makes one$"),
        ([short, empty], CompareOptions(), r"^files of translations need a reference; name its file"),
        (["tiny", short], replace(options, sources=Path(short)), "sentences need references; "),
        ([reference, short], CompareOptions(references=[Path(reference)]), lengths),
        (["tiny", short], options, lengths),
        (["tiny", short], replace(options, splits=("valid", "test")), "one text, but there are valid, test; name"),
        (["tiny", short], replace(options, references=[Path(short)]), "a run needs sentences to translate; name "),
        (["tiny", "a" * 300], options, "^'a{39}…': not a run or a file: File name too long; name one that exists"),
        ([], options, "^nothing to compare; name at least two runs or files"),
        ([tiny, tiny], options, "^.*tiny: named twice; name different runs or files"),
        ([empty, short], CompareOptions(references=[Path(empty)]), f"^{empty}: empty; name a file with one sentence"),
        (["tiny", str(tiny.folder)], options, "^tiny: named twice; name different runs or files"),
        ([empty, short], replace(options, beam_size=3), "beam_size applies to runs, but all of these are files"),
        (["tiny", reversed_run], options, "^runs of different languages cannot be compared: tiny de→en, .*d en→de"),
    ):
        with pytest.raises((CheckpointError, DataError), match=message):
            compare(names, wrong_terms)
    wrong_groups: list[tuple[list[list[RunLike]], str]] = [
        ([["a", "b"], ["c"]], "^c: fewer than two runs have no spread; give at least two runs in each group"),
        ([["a", "b"], []], "^an empty group: fewer than two runs have no spread; give at least two runs in each"),
        ([[tiny, tiny], ["a", "b"]], "^.*tiny: named twice; name different runs or files"),
        ([["a", "b"], ["c", "a"]], "^a: named twice; name different runs or files"),
        ([["a", "b"], ["c", "./a"]], "^a: named twice; name different runs or files"),
    ]
    for recipes, message in wrong_groups:
        with pytest.raises(DataError, match=message):
            compare_groups(recipes)


def test_compare_groups_same_weights_twice_raises(options: CompareOptions, tiny: Run, tmp_path: Path) -> None:
    copy = str(shutil.copytree(tiny.folder, tmp_path / "copy"))
    for recipes in ([["tiny", copy]], [["tiny", "a"], [copy, "b"]]):
        for name in "ab":
            file_of(tmp_path / name, ["one"])
        named = [[str(tmp_path / name) if len(name) == 1 else name for name in runs] for runs in recipes]
        with pytest.raises(DataError, match=f"^{copy}: has the same weights as tiny; name"):
            compare_groups(named, options)


def test_compare_groups_warns_of_equal_seeds_and_settings(
    options: CompareOptions, tiny: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["tiny"]
    for number, (seed, data) in enumerate(((0, {}), (5, {"corpus": "multi30k", "files": None})), start=1):
        folder = shutil.copytree(tiny.folder, tmp_path / str(number))
        weights = folder / "checkpoints" / tiny.best_checkpoint_name / "model.safetensors"
        weights.write_bytes(save(load(weights.read_bytes()), {"number": str(number)}))  # of equal values another file
        reseal(weights.parent)
        training = tiny.config.training.model_copy(update={"learning_rate": 0.1, "seed": seed})
        changed = {"training": training, "data": tiny.config.data.model_copy(update=data)}
        set_config(folder, tiny.config.model_copy(update=changed))
        names.append(str(folder))
    compare_groups([names], options)
    first, one, other = names
    assert caplog.messages == [
        f"{first}, {one}: trained with the same training.seed, 0; their spread does not show the effect of the seed",
        f"{first}, {one}, {other}: runs of one group that differ in training.learning_rate, data.corpus, "
        "data.files.train.source, data.files.train.target, …; their spread is not due to chance alone",
    ]


@pytest.mark.parametrize("name", ["comet", "terr", "chrf+"])
def test_compare_and_evaluate_check_metrics_first(options: CompareOptions, tiny: Run, name: str) -> None:
    unknown = replace(options, metrics=[name])
    for call in (
        lambda: compare(["tiny", "tiny"], unknown),
        lambda: compare_groups([["a", "b"]], unknown),
        lambda: list(evaluate(tiny.folder, metrics=name, data_dir=options.data_dir)),
    ):
        with pytest.raises(ConfigError, match=re.escape(f"no metric '{name}'; there are bleu, chrf, chrf++, ter")):
            call()


def test_evaluate_takes_one_metric_as_text_in_any_case(options: CompareOptions, tiny: Run) -> None:
    for named in ("ter", "TER", ["TER", "bleu"]):
        (judged,) = evaluate(tiny.folder, metrics=named, data_dir=options.data_dir)
        assert [*judged.result.extra_metrics] == ["ter"]
        assert "|case:lc|tok:tercom" in judged.result.extra_metrics["ter"].signature
