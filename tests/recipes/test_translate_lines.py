"""`tfm translate`: a line out for every line in, and nothing else on standard output; how it searches."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import threading
import tracemalloc
from pathlib import Path

import pytest

from kinds import Refused, Tfm
from sealed import reseal
from transformer_cli.adapters.documents.files import FORMATS

SENTENCES = ("Der alte Hund singt im Park.", "", "Die junge Katze schläft zu Hause.", "   ", "Der alte Hund singt.")
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES).encode()
NAMED = "Der kleine Zorro schläft am Strand."


def test_translate_arguments_file_and_stdin_print_lines(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    (tmp_path / "sentences").write_bytes(TEXT)
    code, out, err = from_stdin = tfm("translate", stdin=TEXT, cwd=project)
    assert (code, out.split("\n")[:4], out.count("\n"), err) == (0, [DOG, "", CAT, ""], 5, "")
    assert tfm("translate", *SENTENCES, cwd=project) == from_stdin
    assert tfm("translate", cwd=project) == (0, "", "")  # of no line
    assert tfm("translate", "--input", tmp_path / "sentences", cwd=project) == from_stdin


def test_translate_and_evaluate_read_a_pipe(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    pipe, reference = tmp_path / "pipe.txt", tmp_path / "reference"
    os.mkfifo(pipe)
    reference.write_text("The dog runs.\n", encoding="utf-8")
    differ = f"tfm: error: {pipe} and {reference} differ in their number of lines; line n must translate line n\n"
    for command, answer in (
        (("translate", "--input", pipe), (0, f"{DOG}\n{DOG}\n", "")),
        (("evaluate", "--input", pipe, "--reference", reference), (1, "", differ)),
    ):
        writer = threading.Thread(target=pipe.write_bytes, args=(f"{SENTENCES[0]}\n{SENTENCES[0]}\n".encode(),))
        writer.start()
        assert tfm(*command, cwd=project) == answer
        writer.join()


ANNOTATIONS = ("placeholders", "terms", "missing_numbers", "check")
LISTS = ("tokens", *ANNOTATIONS, "source_tokens", "alternatives")
KEYS = ["source", "translation", "tokens", "log_prob", "score", "alignment", *LISTS[1:]]


def test_translate_json_has_the_promised_keys(tfm: Tfm, project: Path) -> None:
    _, out, _ = tfm("translate", "--json", *SENTENCES, cwd=project)
    objects = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [value["source"] for value in objects] == list(SENTENCES)
    assert [list(value) for value in objects] == [KEYS] * len(SENTENCES)
    assert objects[0]["translation"] == "the old dog sings in the park."
    assert objects[0]["tokens"] == ["the", "old", "dog", "sings", "in", "the", "park", "."]
    assert objects[0]["log_prob"] < 0
    assert objects[0]["source_tokens"] == ["der", "alte", "hund", "singt", "im", "park", "."]
    pairs = [[int(index) for index in pair.split("-")] for pair in objects[0]["alignment"].split()]
    assert [target for _, target in pairs] == list(range(8))
    assert (pairs[1], pairs[2]) == ([1, 1], [2, 2])
    nothing = {"source": "", "translation": "", "log_prob": 0.0, "score": 0.0, "alignment": ""}
    assert objects[1] == {**nothing, **{key: [] for key in LISTS}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "the small zorro sleeps at the beach."),
        (("--keep-unk",), "the small <unk> sleeps at the beach."),
        (("--keep-unk", "--max-tokens", 4), "the small <unk> sleeps"),
        (("--max-tokens", 99), "the small zorro sleeps at the beach."),
    ],
)
def test_translate_output_options(tfm: Tfm, project: Path, options: tuple[object, ...], expected: str) -> None:
    assert tfm("translate", *options, NAMED, cwd=project) == (0, f"{expected}\n", "")


LONG = "Hund " * 15
ENDLESS = "Hund" * 1001
MIXED = [SENTENCES[0], LONG, "", SENTENCES[2], ENDLESS, SENTENCES[0]]
DOG, CAT = "the old dog sings in the park.", "the young cat sleeps at home."


def test_translate_invalid_line_is_named_after_earlier_output(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    path = tmp_path / "sentences"
    remedy = "; split the sentence, or choose with on_too_long what to do with such lines\n"
    for line, what, end in (
        (LONG.encode(), "15 tokens, but the model takes at most 14 (its 16 positions minus <sos> ", remedy),
        (ENDLESS.encode(), "more than 4,000 characters; ", remedy),
        (b"\xff", "byte 1 of the line is 0xff, which is not UTF-8; ", "\n"),
    ):
        path.write_bytes("".join(f"{each}\n" for each in SENTENCES[:3]).encode() + line + b"\nHund\n")
        code, out, err = tfm("translate", "--input", path, cwd=project)
        assert (code, out, err.count("\n")) == (1, f"{DOG}\n\n{CAT}\n", 1)
        assert err.startswith(f"tfm: error: {path}: line 4: {what}")
        assert err.endswith(end)


@pytest.mark.parametrize(
    ("on_too_long", "long", "endless"), [("blank", "", ""), ("copy", LONG, ENDLESS[:4000]), ("truncate", None, "the")]
)
def test_translate_on_too_long_reports_long_lines(
    tfm: Tfm, project: Path, on_too_long: str, long: str | None, endless: str
) -> None:
    if long is None:
        long = tfm("translate", "Hund " * 14, cwd=project)[1].removesuffix("\n")
    code, out, err = tfm("translate", "--on-too-long", on_too_long, stdin="\n".join(MIXED * 6).encode(), cwd=project)
    what = "a source that is too long in 12 translations: lines 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, …"
    assert (code, err) == (0, f"warning: standard input: {what}\n")
    lines = out.split("\n")[:-1]
    assert (lines[0], lines[2], lines[3], len(lines)) == (DOG, "", CAT, 36)
    assert (lines[1], lines[4][: len(endless)]) == (long, endless)


def test_translate_reads_an_endless_line_only_in_part(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    """8 MiB in one line: a gzip file that unpacks to gigabytes is no different."""
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(1 << 23).join((f"{NAMED}\n".encode(), f"\n{NAMED}\n".encode()))))
    tracemalloc.start()
    stopped = tfm("translate", "--input", bomb, cwd=project)
    blank = tfm("translate", "--input", bomb, "--on-too-long", "blank", cwd=project)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (stopped[0], stopped[1].count("\n")) == (1, 1)
    assert stopped[2].startswith(f"tfm: error: {bomb}: line 2: more than 4,000 characters; ")
    assert (blank[0], blank[1].split("\n")) == (0, [stopped[1].strip(), "", stopped[1].strip(), ""])
    assert most < 1 << 22


def test_translate_output_is_compressed_by_its_name(tfm: Tfm, used: Path) -> None:
    (used / "asked").write_text("Der alte Hund singt im Park.\n" * 3, encoding="utf-8")
    answers = "the old dog sings in the park.\n" * 3
    for name, unpack in {"out.GZ": gzip.decompress, "out.bz2": bz2.decompress, "out.txt.xz": lzma.decompress}.items():
        (used / name).touch(mode=0o600)
        assert tfm("translate", "-i", "asked", "-o", name, cwd=used)[0] == 0
        assert unpack((used / name).read_bytes()).decode() == answers
        assert (used / name).stat().st_mode & 0o777 == 0o600


def test_translate_parts_of_4000_lines_joined_are_the_whole(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    """As `split -l 4000` and `cat` make them; one line in fifty has words."""
    lines = [f"{'' if number % 50 else SENTENCES[number % 3]}\n".encode() for number in range(4050)]
    texts = []
    for part in (lines, lines[:4000], lines[4000:]):
        (tmp_path / "part").write_bytes(b"".join(part))
        code, text, _ = tfm("translate", "--input", tmp_path / "part", cwd=project)
        assert (code, text.count("\n")) == (0, len(part))
        texts.append(text)
    assert texts[0] == texts[1] + texts[2]


def test_translate_format_html_keeps_the_markup(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    dog, cat = SENTENCES[0], SENTENCES[2]
    page = tmp_path / "page.html"
    page.write_bytes(f"<!DOCTYPE html>\r\n<p class=a>{dog}\n <b>{cat}</b></p>\r\n".encode())
    expected = f"<!DOCTYPE html>\r\n<p class=a>{DOG} <b>{CAT}</b></p>\r\n"
    html = ("translate", "--format", "html", "--input", page)
    said = f"{page}: 1 text translated\n"
    assert tfm(*html, "--output", tmp_path / "out.html", cwd=project) == (0, "", said)
    assert (tmp_path / "out.html").read_bytes().decode() == expected
    packed = tmp_path / "page.html.gz"
    packed.write_bytes(gzip.compress(page.read_bytes()))
    assert tfm(*html[:-1], packed, cwd=project) == (0, expected, said.replace("html:", "html.gz:"))
    page.write_bytes(b"<p>\xff")
    code, _, err = tfm(*html, cwd=project)
    assert (code, err) == (1, f"tfm: error: {page}: byte 4 is not UTF-8; save the document in UTF-8\n")


def test_translate_folder_writes_the_same_files(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    dog, cat, folder, out = SENTENCES[0], SENTENCES[2], tmp_path / "de", tmp_path / "en"
    files = {
        "bad.po": "msgid", "a/b.html": f"<p>{dog}</p>", "a/b.txt": f"{dog}\r\n\r\n {cat} 7", "a/c/d.css": "p {{}}",
        ".hidden/a.txt": dog, "~$a.docx": "", "e.txt": "<?xml version='1.0'?><a/>", "f.md": f"# {dog}", "a/0": "",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    os.mkfifo(folder / "pipe.html")
    code, printed, err = tfm("translate", "-i", folder, "-o", out, cwd=project)
    failed = (
        f"error: {folder}/bad.po: line 1: not a line of a message catalogue (PO): 'msgid'\n"
        f"error: {folder}/e.txt: apparently XML; export its text as one of {', '.join([*FORMATS][1:])}, or "
        "translate its lines, markup included, by `--format text`\n"
        f"error: {folder}/pipe.html: a device, broken link or unreadable folder, not a file; put a copy there\n"
    )
    end = f"tfm: error: {folder}: 3 files of 8 not translated; see the errors above\n"
    done = f"{out}: 3 files translated, 2 copied unchanged (a/c/d.css, a/0); 4 texts translated"
    assert (code, printed, err) == (1, "", f"{failed}{done}\n{end}")
    found = {str(each.relative_to(out)): each.read_bytes().decode() for each in out.rglob("*") if each.is_file()}
    assert found.keys() == {"a/b.html", "a/b.txt", "a/c/d.css", "f.md", "a/0"}
    assert (found["a/b.html"], found["a/c/d.css"]) == (f"<p>{DOG}</p>", "p {{}}")
    assert found["a/b.txt"].startswith(f"{DOG}\r\n\r\n {CAT[:3]}")
    (out / "a/b.html").write_text("mine", encoding="utf-8")
    (folder / "bad.po").write_text("", encoding="utf-8")
    (folder / "e.txt").unlink()
    (folder / "pipe.html").unlink()
    done = f"{out}: 1 file translated, 5 there already; 0 texts translated\n"
    assert tfm("translate", "-i", folder, "-o", out, cwd=project) == (0, "", done)
    assert (out / "a/b.html").read_text(encoding="utf-8") == "mine"


def test_translate_report_has_each_text_and_is_never_replaced(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    folder, report = tmp_path / "de", tmp_path / "report.tsv"
    folder.mkdir()
    heading = "file\tplace\tsource\ttarget\tcheck\treplaced\tconfirmed"
    (folder / "a.txt").write_text(f"{SENTENCES[0]}\n\n{SENTENCES[2]}", encoding="utf-8")
    (folder / "b.po").write_text("msgid", encoding="utf-8")  # an error does not lose the rows of other files
    expected = [f"{SENTENCES[0]}\t{DOG}\t\t\t", f"{SENTENCES[2]}\t{CAT}\t\t\t"]
    assert tfm("translate", "-i", folder, "-o", tmp_path / "en", "--report", report, cwd=project)[0] == 1
    rows = [f"{folder}/a.txt\tline {number}\t{row}" for number, row in zip((1, 3), expected, strict=True)]
    assert report.read_text(encoding="utf-8").split("\n") == [heading, *rows, ""]
    code, _, err = tfm("translate", "Hund", "--report", report, cwd=project)
    said = f"--report {report} exists, perhaps with somebody's work; name another file\n"
    assert (code, err.endswith(said)) == (2, True)
    lines = [f"{SENTENCES[0]} 7", "", LONG, f"=SUM {SENTENCES[2]}"]
    options = ("--on-too-long", "blank", "--report", tmp_path / "lines.tsv")
    assert tfm("translate", *options, stdin="\n".join(lines).encode(), cwd=project)[0] == 0
    found = [row.split("\t") for row in (tmp_path / "lines.tsv").read_text(encoding="utf-8").split("\n")[1:-1]]
    assert found[2][2] == f"'{lines[3]}"  # a spreadsheet would compute it
    assert [(row[0], row[1], row[4]) for row in found] == [
        ("", "line 1", "a number is missing"),
        ("", "line 3", "a source that is too long"),
        ("", "line 4", ""),
    ]


def test_translate_report_replaces_no_translation(tfm: Tfm, refused: Refused, project: Path, tmp_path: Path) -> None:
    folder, link = tmp_path / "de", tmp_path / "link.tsv"
    folder.mkdir()
    (folder / "a.txt").write_text(SENTENCES[0], encoding="utf-8")
    link.symlink_to(tmp_path / "en.tsv")
    said = refused("translate", "-i", folder / "a.txt", "-o", tmp_path / "en.tsv", "--report", link, cwd=project)
    assert said == f"tfm: error: {link}: cannot be written: two options name it; name another file"
    of_folder = tfm("translate", "-i", folder, "-o", tmp_path / "en", "--report", tmp_path / "en/a.txt", cwd=project)
    assert (of_folder[0], "there is no folder" in of_folder[2]) == (1, True)
    (tmp_path / "en").mkdir()
    of_folder = tfm("translate", "-i", folder, "-o", tmp_path / "en", "--report", tmp_path / "en/a.txt", cwd=project)
    assert (of_folder[0], "the translation of a file gets this name" in of_folder[2]) == (2, True)


def test_translate_folder_follows_no_link_out_of_it(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    folder, out, other = tmp_path / "de", tmp_path / "en", tmp_path / "other"
    for each in (folder / "sub", out, other):
        each.mkdir(parents=True)
    (other / "a.txt").write_text("geheim", encoding="utf-8")
    (folder / "a.txt").write_text(SENTENCES[0], encoding="utf-8")
    (folder / "b.txt").symlink_to("a.txt")
    (folder / "c.txt").symlink_to(other / "a.txt")
    (folder / "d.txt").symlink_to("../other/../other/a.txt")
    (folder / "e.txt").write_text("Hund", encoding="utf-8")
    (folder / "sub/f.css").write_text("p {}", encoding="utf-8")
    (out / "e.txt").symlink_to(other / "new.txt")
    (out / "sub").symlink_to(other)
    code, _, err = tfm("translate", "-i", folder, "-o", out, cwd=project)
    refused = {folder: (folder / "c.txt", folder / "d.txt"), out: (out / "e.txt", out / "sub/f.css")}
    leads_out = "a link that leads out of"
    said = [f"error: {path}: {leads_out} {of}; replace it by a copy" for of in refused for path in refused[of]]
    assert (code, err.splitlines()[:4]) == (1, said)
    assert sorted(each.name for each in out.iterdir() if not each.is_symlink()) == ["a.txt", "b.txt"]
    assert [each.name for each in other.iterdir()] == ["a.txt"]


def test_translate_warns_once_of_paragraph_lines(tfm: Tfm, project: Path) -> None:
    lines = [f"{SENTENCES[4]} {SENTENCES[4]}" if n % 4 == 0 else SENTENCES[4] for n in range(104)]
    _, _, err = tfm("translate", stdin="\n".join(lines).encode(), cwd=project)
    what = "warning: standard input: apparently several sentences per line (in 25 of the first 100); some"
    assert err.startswith(what)
    assert err.endswith("; --split-sentences translates them one by one\n")
    assert err.count("\n") == 1
    for quiet in (("--no-split-sentences",), ("--split-sentences",)):
        assert tfm("translate", *quiet, stdin="\n".join(lines).encode(), cwd=project)[2] == ""
    assert tfm("translate", stdin="\n".join(lines[1:8]).encode(), cwd=project)[2] == ""  # 1 of 7


SENTENCE = "Der alte Hund singt im Park."
SAMPLE = ("--set", "decoding.sample=true", "--set", "decoding.temperature=4", "--set", "decoding.seed=3")


def test_translate_n_best_are_numbered_lines_with_a_score(tfm: Tfm, project: Path) -> None:
    options = ("--beam-size", 4, "--n-best", 2)
    code, out, _ = tfm("translate", *options, SENTENCE, " ", "Hund", cwd=project)
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert (code, [row[0] for row in rows]) == (0, ["1", "1", "2", "3", "3"])
    assert rows[2] == ["2", "0.0000", ""]
    as_json = tfm("translate", "--json", *options, SENTENCE, " ", "Hund", cwd=project)[1]
    found = [json.loads(line) for line in as_json.split("\n")[:-1]]
    assert [(each["source"], len(each["alternatives"])) for each in found] == [(SENTENCE, 1), (" ", 0), ("Hund", 1)]
    written = [each for line in found for each in (line, *line["alternatives"])]
    assert [row[1:] for row in rows] == [[f"{each['score']:.4f}", each["translation"]] for each in written]


@pytest.mark.parametrize("search", [("--set", "decoding.beam_size=4"), SAMPLE], ids=["beam", "sample"])
def test_inspect_shows_the_printed_translation(tfm: Tfm, project: Path, search: tuple[str, ...]) -> None:
    found = json.loads(tfm("translate", *search, "--json", SENTENCE, cwd=project)[1])
    inspected = json.loads(tfm("inspect", *search, "--json", SENTENCE, cwd=project)[1])
    assert inspected["translation"] == found["translation"]
    assert inspected["target_tokens"] == ["<sos>", *found["tokens"]]


def test_translate_and_evaluate_take_several_runs(tfm: Tfm, refused: Refused, workspace: Path) -> None:
    shutil.copytree(workspace / "runs/tiny", workspace / "runs/twin")
    both = ("--run", "tiny", "--run", "twin")
    assert tfm("translate", *both, SENTENCE, cwd=workspace) == tfm("translate", SENTENCE, cwd=workspace)
    printed = [tfm("evaluate", "--json", *runs, cwd=workspace)[1] for runs in (("--run", "tiny"), both)]
    alone, together = map(json.loads, printed)
    assert (together["run"], together["others"]) == ("runs/tiny", ["runs/twin"])
    assert "others" not in alone
    for key in ("loss", "loss_batch_mean", "bleu"):
        assert together["results"][0][key] == pytest.approx(alone["results"][0][key], rel=1e-5)
    (workspace / "runs/twin/target.vocab.txt").write_text("<unk>\n<pad>\n<sos>\n<eos>\n", encoding="utf-8")
    reseal(workspace / "runs/twin")
    for command in (("translate", SENTENCE), ("evaluate",)):
        err = refused(*command, *both, cwd=workspace)
        assert err.startswith("tfm: error: runs/tiny and runs/twin cannot translate together")
        assert "(other vocabularies)" in err
