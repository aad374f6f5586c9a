"""How often `tfm compare` finds a difference where there is none: sentences of two texts, exchanged by a coin.

    python scripts/null_trial.py greedy.txt beam.txt --reference valid.en --draws 300

Each draw gives every sentence's two translations to the two systems by the toss of a coin, so that neither is better,
and compares them. Prints how many verdicts say that one is better: with a level of 0.05 at most one in twenty should.
"""

import argparse
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from measure.figures import say
from transformer_cli.evaluation.compare import Terms, compare


def main() -> None:
    """Draw, compare and count."""
    parser = argparse.ArgumentParser(description="Count false verdicts of tfm compare.")
    parser.add_argument("systems", type=Path, nargs=2, help="two files of translations")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--sentences", type=int, default=500, help="how many lines of the files are used")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    one, other, references = (
        path.read_text(encoding="utf-8").split("\n")[: options.sentences]
        for path in (*options.systems, options.reference)
    )
    n_false = 0
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a", "b", "reference")]
        for draw in range(1, options.draws + 1):
            tossed = [chance.sample(pair, 2) for pair in zip(one, other, strict=True)]
            for path, lines in zip(paths, (*zip(*tossed, strict=True), references), strict=True):
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            (found,) = compare([str(paths[0]), str(paths[1])], Terms(references=paths[2], lowercase=True), examples=0)
            n_false += " is better than " in str(found.systems[1].verdict)
            if draw % 20 == 0:
                say(f"{draw} draws, {n_false} false verdicts")
    print(f"{n_false} of {options.draws} verdicts were false: {100 * n_false / options.draws:.1f} %")


if __name__ == "__main__":
    main()
