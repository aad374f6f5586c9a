"""Runs the commands of README.md and docs/ and the notebook, and compares their output with the pages.

python scripts/run_docs.py [--folder FOLDER] [--write] [PAGE ...]

A block ```sh has commands. A block with lines "$ COMMAND" also has their output, in which "…" stands for any lines. A
block ```python is a program. A comment right before a block may have these keys, one "key: value" per line:

not run: REASON     why the block is not run
folder: NAME        the folder in which it is run, after earlier blocks; by default each page has its own folder. A
                    block that an earlier page has word for word for the same folder is not run again
before: COMMAND     a command to run first; may be repeated
file: NAME          the block is not run, but written to this file
then: COMMAND       a command to run afterwards
server: yes         the first command runs until the block ends
differs: N          number of lines that may differ on another machine, such as words or verdicts of a model

The notebook is run in the folder demo, where README.md has trained a run; its metadata have the number of lines that
may differ. --write stores its outputs, without standard error.

Dates, seconds and precisions may always differ, and other numbers by a factor of ten. Multi30k is found as by `tfm
prepare` (TFM_MULTI30K_DIR); the pages show its test sets of 2016 and 2017. All runs of all pages are trained, which
takes about an hour.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOK = ROOT / "docs/attention.ipynb"
BLOCK = re.compile(r"(?:<!--((?:(?!-->).)*)-->\n+)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
KEYS = {"not run", "folder", "before", "file", "then", "server", "differs"}
QUICK = re.compile(r"tfm( config.*| --help| \w+ --help)?$")  # needs neither text nor a model
NOT_COMPARED = re.compile(r"epoch \d+/\d+: |warning: .* lacks test_")  # progress, and test sets that are not there
NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w.-]|,\d| m?s\b)")  # seconds are the machine's
FACTOR = 10  # by which numbers may differ, unless both are small
SMALL = 0.05  # a p-value, a weight that is nearly 0
# text that depends on the machine → its stand-in
MACHINE = {r"-[0-9a-f]{8}\b": "-#", r"bfloat16|float32": "#", r"(< )?[+−-]?\d[\d,]*(\.\d+)?(e-?\d+)?": "#"}
MACHINE |= {r" best$": "", r" threads\b": " thread", r"[░▒▓█]+": "", r"\s+": " "}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    notes: dict[str, str]
    """what the comment says; the commands of several lines with one key are one script"""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[tuple[str, list[str]]]:
        """Returns each command with the lines that it prints; a block of commands alone is one script."""
        if self.language == "sh":
            return [(self.text, ["…"])]
        if self.language == "python":
            return [(f"python - <<'END'\n{self.text}END", ["…"])]
        found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", self.text, re.MULTILINE)
        return [(command, printed.strip("\n").split("\n") if printed.strip() else []) for command, printed in found]

    def is_run(self) -> bool:
        return bool(self.commands()) and not {"not run", "file"} & self.notes.keys()

    def is_quick(self) -> bool:
        return self.is_run() and all(QUICK.match(command.strip()) for command, _ in self.commands())


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page with their comments, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        notes = dict[str, str]()
        for line in (match[1] or "").strip().splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            notes[key] = f"{notes[key]}\n{value}" if key in notes else value
        assert notes.keys() <= KEYS, f"{page}: {notes}"
        found.append(Block(page, text.count("\n", 0, match.start(2)) + 1, match[2], match[3], notes))
    return found


def run(block: Block, root: Path, env: dict[str, str]) -> tuple[str, str]:
    """Runs a block in its folder below `root`. Returns its text with the new output, and the differences or ""."""
    folder = root / block.notes.get("folder", block.page.stem)
    folder.mkdir(exist_ok=True)
    before, then = (block.notes.get(key, "") for key in ("before", "then"))
    now, differs, server = list[str](), failure(before, *call(before, folder, env)), None
    if name := block.notes.get("file"):
        (folder / name).write_text(block.text, encoding="utf-8")
    for command, page in block.commands() if block.is_run() else []:
        if "server" in block.notes and server is None:
            server = start(f"exec {command}", folder, env)
            assert server.stdout
            code, printed = 0, [server.stdout.readline().rstrip("\n") for _ in page]
        else:
            code, printed = call(command, folder, env)
        allowed = int(block.notes.get("differs", 0))
        differs += failure(command, code, printed) or difference(page, printed, allowed)
        now += [f"$ {command}", *(page if "…" in page else printed)]
    if server:
        server.terminate()
        server.wait()
    return "\n".join(now) + "\n", differs + failure(then, *call(then, folder, env))


def run_notebook(page: Path, folder: Path, env: dict[str, str], *, is_kept: bool) -> str:
    """Runs a notebook in a folder. Returns the differences or "". is_kept: write the outputs into its file."""
    import nbformat  # extras of development
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(page, as_version=4)
    before = shown_lines(notebook)
    try:
        NotebookClient(notebook, record_timing=False, resources={"metadata": {"path": str(folder)}}).execute(env=env)
    except CellExecutionError as error:
        return str(error)
    for cell in notebook.cells:
        cell.outputs = [each for each in cell.get("outputs", []) if not is_progress(each)]
        if cell.cell_type != "code":
            del cell["outputs"]
    if is_kept:
        for key in ("language_info", "widgets"):  # the version of Python; bars
            notebook.metadata.pop(key, None)
        nbformat.write(notebook, page)
    return difference(before, shown_lines(notebook), notebook.metadata.get("differs", 0))


def is_progress(output: Any) -> bool:
    """Whether an output of a cell is a progress bar or another message."""
    return output.get("name") == "stderr" or "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def shown_lines(notebook: Any) -> list[str]:
    """Returns the lines of text in the outputs of a notebook."""
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    texts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in outputs]
    return [line for text in texts for line in text.splitlines()]


def start(command: str, folder: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    """Starts a command whose standard error goes to its standard output."""
    none, pipe, same = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    bash = ["bash", "-e", "-c", command]
    return subprocess.Popen(bash, cwd=folder, env=env, text=True, stdin=none, stdout=pipe, stderr=same)


def call(command: str, folder: Path, env: dict[str, str]) -> tuple[int, list[str]]:
    """Returns the exit code and the printed lines of a command, without progress."""
    with start(command, folder, env) as started:
        printed, _ = started.communicate()
    return started.returncode, [line for line in printed.splitlines() if not NOT_COMPARED.match(line)]


def failure(command: str, code: int, printed: list[str]) -> str:
    return "" if code == 0 else f"{command}\nends with {code}:\n" + "\n".join(printed[-10:]) + "\n"


def difference(page: list[str], printed: list[str], allowed: int) -> str:
    """Returns the differing lines, except where machines may differ; "" if there are no more than `allowed`."""
    if page == printed:
        return ""
    left_lines, right_lines = [[line for line in lines if line.strip()] for lines in (page, printed)]
    left, right = [[plain(line) for line in lines] for lines in (left_lines, right_lines)]
    count = 0
    for tag, start, stop, first, last in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            count += sum(map(are_far_apart, left_lines[start:stop], right_lines[first:last]))
        else:
            given = [line for line in left[start:stop] if line != "…"]
            count += max(len(given), 0 if "…" in left[start:stop] else last - first)
    if count <= allowed:
        return ""
    lines = difflib.unified_diff(page, printed, "page", "now", lineterm="", n=0)
    return "\n".join(line for line in lines if "…" not in page or line.startswith("-")) + "\n"


def are_far_apart(line: str, other: str) -> bool:
    """Whether two lines differ only in numbers, one of which is more than FACTOR times the other."""
    numbers = ([float(each.replace(",", "")) for each in NUMBER.findall(text)] for text in (line, other))
    return any(max(pair) > max(SMALL, FACTOR * min(pair)) for pair in zip(*numbers, strict=False))


def plain(line: str) -> str:
    for pattern, sign in MACHINE.items():
        line = re.sub(pattern, sign, line)
    return line.strip()


def environment(home: Path) -> dict[str, str]:
    """Returns environment variables with which a command finds this tfm, but not the user's files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TFM_", "XDG_", "MPL"))}
    if folder := os.environ.get("TFM_MULTI30K_DIR"):
        kept["TFM_MULTI30K_DIR"] = folder
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    kept["TFM_CHECKOUT"] = str(ROOT)
    return {**kept, "PATH": path, "HOME": str(home), "TMPDIR": str(home), "PYTHONUNBUFFERED": "1"}


def main() -> None:
    """Runs the blocks. The exit code is 1 if an output differs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("pages", nargs="*", type=Path, default=[*PAGES, NOTEBOOK], metavar="PAGE")
    options.add_argument("--folder", type=Path, help="keep the pages' folders here, and use those that are here")
    options.add_argument("--write", action="store_true", help="write what is printed now into the pages")
    given = options.parse_args()
    wrong, passed = False, set[str]()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder.resolve() if given.folder else Path(temporary)
        home = Path(temporary) / "home"
        home.mkdir()
        markdown = [page.resolve() for page in given.pages if page.suffix == ".md"]
        for block in (block for page in markdown for block in blocks(page)):
            if "not run" in block.notes:
                print(f"{block.place}: not run: {block.notes['not run']}", flush=True)
            elif block.is_run() or block.notes:
                same = {f"{block.notes.get('folder')} {each}" for each in block.commands() if block.is_run()}
                if same and same <= passed:
                    print(f"{block.place}: ok on an earlier page", flush=True)
                    continue
                now, differs = run(block, root, environment(home))
                wrong |= bool(differs)
                passed |= same
                print(f"{block.place}: {'differs' if differs else 'ok'}\n{differs}".rstrip(), flush=True)
                if given.write and "$ " in block.text:
                    text = block.page.read_text(encoding="utf-8")
                    block.page.write_text(text.replace(block.text, now), encoding="utf-8")
        for page in (page for page in given.pages if page.suffix == ".ipynb"):
            differs = run_notebook(page, root / "demo", environment(home), is_kept=given.write)
            wrong |= bool(differs)
            print(f"{page.name}: {'differs' if differs else 'ok'}\n{differs}".rstrip(), flush=True)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
