"""Does tfm compute the same on a GPU as on the CPU, and how fast, beside the tutorials' loop on the same GPU?

    python scripts/check_device.py                         the first CUDA device, else the CPU
    python scripts/check_device.py --device cpu --quick    a tiny model, to try the script itself

On the CPU, all threads are compared with one. The text is made up: random ids with the lengths of Multi30k's sentences.
Prints a line for each figure to standard output, and progress to standard error. The exit code is 1 if a check fails.
It has only run on CPUs: for a GPU its limits are guesses, and so is its time there, less than 10 minutes.
"""

import argparse
import json
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
import torch

from measure.device import MB, Place, Work, made_up_text, take_steps, training_beside_plain
from measure.figures import Figure, as_program
from transformer_cli.compute.devices import Precision, bfloat16_unit, choose_device, describe_device
from transformer_cli.config.schema import ModelConfig, TrainingConfig, TranslationSettings
from transformer_cli.data.batching import collate
from transformer_cli.search.protocols import SearchRequest

TINY = ModelConfig(d_model=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=64)
PRE_NORM = {"norm": "pre", "final_norm": True, "positions": "rotary", "embedding_init": "normal"}
VARIANTS = {"post-norm": {}, "pre-norm, rotary": PRE_NORM}
LOSS_LIMITS: dict[Precision, float] = {"float32": 1e-3, "bfloat16": 0.1}  # nats, for each token
GRADIENT_LIMITS: dict[Precision, float] = {"float32": 1e-3, "bfloat16": 0.1}  # relative to the gradient's norm
STEPS_LIMIT = 5e-3  # relative to the loss; rounding grows from step to step
MIN_SAME = 0.98  # share of the translations; where two tokens are almost equally likely, rounding decides


@dataclass(frozen=True)
class Check:
    """A figure, and whether it is as it should be."""

    figure: Figure
    verdict: str = ""
    """ok, differs (the script fails), or differs with a reason; "" if nothing is expected"""

    def __str__(self) -> str:
        """Returns a line, such as "optimisers: adam, 20 steps: largest difference: 2e-06 of the loss: ok"."""
        each = self.figure
        beside = "" if each.ratio is None else f" beside {each.reference:,.5g}, ratio {each.ratio:.3g}"
        verdict = f": {self.verdict}" if self.verdict else ""
        return f"{each.section}: {each.name}: {each.ours:,.5g} {each.unit}{beside}{verdict}"


def losses(work: Work) -> Iterator[Check]:
    """Compares the losses and gradients of a batch, in each precision, with the reference in float32."""
    batch = collate(work.split, work.plan(work.batch_sizes[0])[0])
    for name, changes in VARIANTS.items():
        config, (place, reference) = work.config.model_copy(update={"dropout": 0.0, **changes}), work.places
        nll, gradient = reference.losses_and_gradient(config, batch, "float32")
        for precision in work.precisions:
            nll_here, gradient_here = place.losses_and_gradient(config, batch, precision)
            largest = float((nll_here - nll).abs().max())
            figure = Figure("losses", f"{name}, {precision}: largest difference of a token", "nats", largest)
            yield _judge(figure, LOSS_LIMITS[precision])
            relative = float((gradient_here - gradient).norm() / gradient.norm())
            figure = Figure("gradients", f"{name}, {precision}: difference", "of the norm", relative)
            yield _judge(figure, GRADIENT_LIMITS[precision])


def optimisers(work: Work) -> Iterator[Check]:
    """Compares the losses of some steps of each optimiser, without dropout."""
    plan = work.plan(work.batch_sizes[0])
    for name in ("adam", "muon"):
        training = TrainingConfig.model_validate({"optimizer": name, "precision": "float32"})
        learners = (place.learner(work.config.model_copy(update={"dropout": 0.0}), training) for place in work.places)
        here, reference = (np.array(take_steps(learner, work.split, plan)) for learner in learners)
        largest = float(np.abs(here / reference - 1).max())
        what = f"{name}, {len(plan)} steps: largest difference"
        yield _judge(Figure("optimisers", what, "of the loss", largest), STEPS_LIMIT)


def repeats(work: Work) -> Iterator[Check]:
    """Compares the weights after some steps with those of a second time, and of a run that stopped and resumed."""
    place, plan = work.places[0], work.plan(work.batch_sizes[0])
    half = len(plan) // 2
    for precision in work.precisions:
        training = TrainingConfig(precision=precision)
        whole, again, stopped = (place.learner(work.config, training) for _ in range(3))
        for learner, batches in ((whole, plan), (again, plan), (stopped, plan[:half])):
            take_steps(learner, work.split, batches)
        resumed = place.resumed(stopped)
        take_steps(resumed, work.split, plan[half:], first=half + 1)
        may_differ = place.device.type != "cpu"  # bit for bit is promised on the CPU alone
        for name, other in (("the same run twice", again), ("stopped and resumed", resumed)):
            pairs = zip(whole.model.parameters(), other.model.parameters(), strict=True)
            largest = float(torch.stack([(one - two).detach().abs().max() for one, two in pairs]).max())
            figure = Figure("repeats", f"{precision}, {name}: largest difference of a weight", "", largest)
            may_differ = may_differ and largest > 0.0  # if repeated runs are equal, a resumed one must be
            yield Check(figure, "differs, as it may on a GPU") if may_differ else _judge(figure, 0.0)


def texts(work: Work) -> Iterator[Check]:
    """Compares translations of random sentences by an untrained model, greedy and with a beam of 4."""
    config = work.config.model_copy(update=PRE_NORM)  # which repeats itself less
    requests = [SearchRequest(work.split.source[row].tolist(), max_tokens=20) for row in range(10 * work.steps)]
    for name, settings in {"greedy": TranslationSettings(), "beam 4": TranslationSettings(beam_size=4)}.items():
        here, reference = (place.translations(config, requests, settings) for place in work.places)
        same, n_distinct = sum(map(list.__eq__, here, reference)), len(set(map(tuple, reference)))
        what = f"{name}, equal translations ({n_distinct} distinct ones)"
        figure = Figure("texts", what, "sentences", same, len(requests))
        yield Check(figure, "ok" if same >= MIN_SAME * len(requests) else "differs")


def speed(work: Work) -> Iterator[Check]:
    """Measures training beside the plain loop; memory and CUDA's calls as `training_beside_plain` does."""
    for size, precision in product(work.batch_sizes, work.precisions):
        yield from map(Check, training_beside_plain(work, size, precision))
    if work.places[0].device.type == "cpu":
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield Check(Figure("memory", "peak of this process", "MB", kilobytes * 1024 / MB))


SECTIONS: tuple[Callable[[Work], Iterator[Check]], ...] = (losses, optimisers, repeats, texts, speed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares, measures and prints. arguments: None uses those of the process. Raises DeviceError, SystemExit."""
    parser = argparse.ArgumentParser(description="Compare a GPU with the CPU, or all threads of the CPU with one.")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--quick", action="store_true", help="a tiny model, to try this script")
    parser.add_argument("--json", action="store_true", help="print JSON, at the end")
    options = parser.parse_args(arguments)
    device, threads = choose_device(options.device), max(2, torch.get_num_threads())
    work = _make_work(device, threads, is_quick=options.quick)
    beside = f"one thread beside {threads}; a GPU was not tried" if device.type == "cpu" else f"cpu, {threads} threads"
    about = {"device": describe_device(device), "compared with": beside, "torch": torch.__version__}
    checks, failed = list[Check](), list[str]()
    if not options.json:
        print("\n".join(f"{key}: {value}" for key, value in about.items()), flush=True)
    for section in SECTIONS:
        try:
            for check in section(work):
                checks.append(check)
                if not options.json:
                    print(check, flush=True)
        except Exception as error:  # the other sections may still run
            traceback.print_exception(error)
            failed.append(f"{section.__name__}: {error}")
    failed += [str(check) for check in checks if check.verdict == "differs"]
    if options.json:
        rows = [{**asdict(each.figure), "ratio": each.figure.ratio, "verdict": each.verdict} for each in checks]
        print(json.dumps({"about": about, "figures": rows, "failed": failed}, ensure_ascii=False))
    else:
        print(f"{len(failed)} checks failed" if failed else "all checks passed")
    if failed:
        sys.exit(1)


def _make_work(device: torch.device, threads: int, *, is_quick: bool) -> Work:
    """Returns what a device can compute in ten minutes."""
    on_cpu = device.type == "cpu"
    places = Place(device, threads), Place(torch.device("cpu"), 1 if on_cpu else threads)
    if is_quick:
        return Work(places, TINY, made_up_text(200), batch_sizes=(16,), steps=4)
    if on_cpu and not bfloat16_unit(device):
        return Work(places, ModelConfig(), made_up_text(29_000), batch_sizes=(128,), precisions=("float32",))
    return Work(places, ModelConfig(), made_up_text(29_000), batch_sizes=(128,) if on_cpu else (128, 512, 2048))


def _judge(figure: Figure, limit: float) -> Check:
    return Check(figure, "ok" if figure.ours <= limit else "differs")  # a difference that is not a number differs


if __name__ == "__main__":
    as_program(main)
