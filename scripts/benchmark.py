"""Measures how fast tfm is, beside plain references in the same run. docs/benchmarks.md explains the figures.

    make benchmark                                     all sections
    python scripts/benchmark.py --only train --json    one section, as JSON

Prints a table to standard output and progress to standard error. Marks are goals; missing one is not an error.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from measure.commands import large_text, prepare_speed, start_up, training_memory
from measure.decoding import FEW, beam_speed, busy_speed, ctranslate2_speed, greedy_speed, open_run
from measure.figures import Figure, Unavailable
from measure.serving import CLIENTS, request_time, serving_speed
from measure.training import beside_plain, beside_products, measure_training
from transformer_cli import prepare
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.errors import TfmError
from transformer_cli.runs.finding import find_run
from transformer_cli.runs.provenance import processor
from transformer_cli.system.terminal import format_table

DATA = Path("data")
HEAD = ("figure", "unit", "ours", "reference", "ratio", "mark")
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimd", "bf16", "i8mm")
MARKS = {  # for the ratio, unless a unit is given
    ("products", "multi30k, float32"): "≤ 1.25",
    ("products", "demo, float32"): "≤ 1.4",
    ("train", "float32"): "≥ 2",
    ("train", "bfloat16"): "≥ 3.3",
    ("greedy", "text to text"): "≥ 20",
    ("beam", "1,000 sentences, beside greedy"): "≤ 2.2",
    ("beam", "text to text, float32"): "≥ 1",
    ("ctranslate2", "text to text, float32"): "≥ 1",
    ("ctranslate2", "text to text, int8"): "≥ 1",
    **{("busy", f"sentences at a time: {count}, beside one program"): "≤ 1" for count in FEW},
    ("prepare", "multi30k"): "≤ 1.3",
    **{("requests", f"processor time, {clients} clients"): "≤ 1.3" for clients in CLIENTS},
    ("start", "tfm --help"): "≤ 0.35 s",
    ("start", "tfm evaluate --help"): "≤ 0.35 s",
    ("start", "tfm translate"): "≤ reference + 0.8 s",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the chosen sections and prints the figures. arguments: None uses those of the process."""
    parser = argparse.ArgumentParser(description="Measure each figure beside a plain reference in the same run.")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a section; repeatable (default: all)")
    parser.add_argument("--run", help="a run of configs/multi30k.yaml to decode with (default: the newest)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if folder := os.environ.get("TFM_MULTI30K_DIR"):
        os.environ["TFM_MULTI30K_DIR"] = os.path.abspath(folder)  # commands run in other folders
    about, figures, missing = machine(), list[Figure](), dict[str, str]()
    for section in options.only or SECTIONS:
        try:
            figures += SECTIONS[section](options.run)
        except (Unavailable, TfmError) as error:
            missing[section] = str(error)
    if options.json:
        rows = [{**asdict(each), "ratio": each.ratio, "mark": _mark(each)} for each in figures]
        print(json.dumps({"machine": about, "figures": rows, "not_measured": missing}, ensure_ascii=False))
        return
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    print(format_table([HEAD, *map(_row, figures)]))
    for section, reason in missing.items():
        print(f"{section}: not measured: {reason}")


def prepared() -> Config:
    """Returns the built-in config, after its dataset is made."""
    prepare(load_config(), data_dir=DATA)
    return load_config()


def step_beside_products() -> list[Figure]:
    """Measure steps of two configs beside their matrix products, in one thread."""
    threads, figures = torch.get_num_threads(), list[Figure]()
    torch.set_num_threads(1)
    for name in ("multi30k", "demo"):
        config = load_config(name)
        prepare(config, data_dir=DATA)
        figures += measure_training(beside_products, config, DATA, batches=2)
    torch.set_num_threads(threads)
    return figures


# section → what measures it, for the value of --run
SECTIONS: dict[str, Callable[[str | None], list[Figure]]] = {
    "products": lambda _: step_beside_products(),
    "train": lambda _: measure_training(beside_plain, prepared(), DATA, batches=8),
    "greedy": lambda run: greedy_speed(*open_run(run, DATA)),
    "beam": lambda run: beam_speed(*open_run(run, DATA)),
    "ctranslate2": lambda run: ctranslate2_speed(*open_run(run, DATA)),
    "busy": lambda run: busy_speed(*open_run(run, DATA)),
    "serve": lambda run: serving_speed(*open_run(run, DATA)),
    "requests": lambda run: request_time(find_run(run).resolve()),
    "prepare": lambda _: prepare_speed(prepared()),
    "large": lambda _: large_text(prepare(load_config(), data_dir=DATA).folder),
    "memory": lambda _: training_memory(prepared().run_name, DATA),
    "start": lambda run: start_up(find_run(run).resolve()),
}


def machine() -> dict[str, Any]:
    """Returns the processor, its load, and the versions of libraries."""
    about = Path("/proc/cpuinfo")
    flags = set(about.read_text().split()) if about.exists() else set[str]()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "flags": " ".join(flag for flag in FLAGS if flag in flags),
        "load before": round(os.getloadavg()[0], 2),
        "torch threads": torch.get_num_threads(),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, spaCy {version('spacy')}",
    }


def _row(figure: Figure) -> tuple[str, ...]:
    numbers = (_rounded(figure.ours), _rounded(figure.reference), _rounded(figure.ratio))
    return f"{figure.section}: {figure.name}", figure.unit, *numbers, _mark(figure)


def _rounded(value: float | None) -> str:
    """Rounds to three significant digits, but keeps all digits before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _mark(figure: Figure) -> str:
    return MARKS.get((figure.section, figure.name), "")


if __name__ == "__main__":
    main()
