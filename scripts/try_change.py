"""Tries a change of the code: applies a diff to a copy, trains a few steps, translates a sentence, and runs tests.

    python scripts/try_change.py FILE.diff [--loss 1.35] [--set KEY=VALUE]

Prints the validation loss after STEPS steps on the embedded corpus with and without the change, a translation, and the
tests of the model, the search and the training step that fail. A line says if greedy search computes other
log-probabilities than training, because the change reaches one of them only, and another if a sentence of 200 tokens
has other gradients with recomputation than without. The exit code is 1 if the loss is further than 3 % from the one
that --loss expects. Nothing outside the current folder changes; it gets the folder tried/.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEPS = 200
SETTINGS = (f"training.max_steps={STEPS}", "training.precision=float32", "training.shards=1", "training.num_threads=1")
SENTENCE = "Ein kleiner Hund läuft durch den Park."
TESTS = ("tests/unit/model", "tests/unit/search", "tests/unit/training/test_learner.py", "tests/parity")
TOLERANCE = 0.03
DECODING = """
from pathlib import Path
from transformer_cli import Translator, score_pairs

translator = Translator("runs/tried")
lines = next(Path("data").glob("*/valid.source.txt")).read_text(encoding="utf-8").splitlines()
found = translator.translate_detailed(sorted(lines, key=len)[-20:])
ended = [each for each in found if len(each.tokens) < 2 * len(each.source_tokens) + 10]  # the others have no <eos>
known = [each for each in ended if "<unk>" not in each.tokens]
scores = score_pairs(translator, [(each.source, each.text) for each in known])
print(max(abs(each.log_prob - score.log_prob) for each, score in zip(known, scores)))
"""  # of the longest sentences; 2n + 10 is the default limit of a search
GRADIENTS = """
import torch
from transformer_cli import Run
from transformer_cli.model import attention
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import EOS, PAD, SOS, SPECIALS

run = Run.open("runs/tried")
torch.manual_seed(0)
sizes = {f"{side}_vocabulary": len(codec) for side, codec in vars(run.codecs).items()}
model = Transformer(run.config.model.model_copy(update={"max_length": 202}), **sizes, pad_id=PAD).train()
weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
for weight in weights.values():
    weight.data.add_(torch.randn_like(weight), alpha=0.01)  # a gate may begin with zeros
ids = (torch.randint(len(SPECIALS), size, (1, 200)) for size in sizes.values())
source, target = (torch.cat((torch.tensor([[SOS]]), each, torch.tensor([[EOS]])), dim=1) for each in ids)
found = []
for attention.RECOMPUTE_LENGTH in (128, 10**9):
    torch.manual_seed(0)
    objective = token_losses(model, source, target).objective
    found.append(torch.autograd.grad(objective, [*weights.values()], materialize_grads=True))
norm = torch.cat([each.flatten() for each in found[1]]).norm()
print(*max((((one - other).norm() / norm).item(), name) for one, other, name in zip(*found, weights)))
"""


def main() -> None:
    """Tries the change of a file; see above."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("diff", type=Path)
    options.add_argument("--loss", type=float, help="that the page says")
    options.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    given = options.parse_args()
    diff = given.diff.read_bytes()
    unchanged, changed = copy("unchanged"), copy(given.diff.stem)
    if subprocess.run(["git", "apply", "-p0", "-"], cwd=changed, input=diff).returncode:
        sys.exit(f"{given.diff} does not fit this code; make it again")
    losses = [train(unchanged), train(changed, *given.settings)]
    print(f"validation loss after {STEPS} steps: {losses[1]:.3f}, without the change {losses[0]:.3f}")
    print(tfm(changed, "translate", "--run", "runs/tried", "--beam-size", "4", SENTENCE).strip())
    if (difference := float(run(changed, "-c", DECODING))) > TOLERANCE:
        print(f"decoding differs from training: the log-probability of a translation by up to {difference:.2f}")
    change, weight = run(changed, "-c", GRADIENTS).split()
    if float(change) > TOLERANCE:
        print(f"recomputation changes gradients of long sentences: {weight} by {float(change):.0%} of the whole norm")
    print("\n".join(["tests that fail:", *failing(changed)]))
    if given.loss and abs(losses[1] - given.loss) > TOLERANCE * given.loss:
        sys.exit(f"the page says {given.loss}")


def copy(name: str) -> Path:
    """Returns a copy of the code under tried/, made anew unless it is the unchanged one, which has been trained."""
    folder = Path("tried", name).resolve()
    if name != "unchanged" or not (folder / "runs").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("transformer_cli", "tests", "configs", "scripts"):
            shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for command in (["init", "-q"], ["add", "."]):  # so that tfm knows what the change has edited
            subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def train(folder: Path, *settings: str) -> float:
    """Returns the validation loss of a copy after STEPS steps, and trains it first if it has no run."""
    history = folder / "runs/tried/history.jsonl"
    if not history.exists():
        tfm(folder, "prepare", "--config", "demo-captions")
        words = [word for each in (*SETTINGS, "name=tried", *settings) for word in ("--set", each)]
        tfm(folder, "train", "--config", "demo-captions", *words)
    return float(json.loads(history.read_text().splitlines()[-1])["valid_loss"])


def tfm(folder: Path, *arguments: str) -> str:
    """Runs a command of a copy. Returns its standard output."""
    return run(folder, "-m", "transformer_cli", *arguments)


def run(folder: Path, *arguments: str, may_fail: bool = False) -> str:
    """Runs Python with a copy. Returns its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode and not may_fail:
        sys.exit(done.stderr)
    return done.stdout


def failing(folder: Path) -> list[str]:
    """Returns the files of TESTS in which tests fail, with the number of these."""
    printed = run(folder, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-rfE", *TESTS, may_fail=True)
    found = Counter(re.findall(r"^(?:FAILED|ERROR) (\S+?\.py)", printed, re.MULTILINE))
    return [f"  {path} ({n})" for path, n in sorted(found.items())] or ["  none"]


if __name__ == "__main__":
    main()
