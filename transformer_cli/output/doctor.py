"""What `tfm doctor` found → JSON, or lines for a bug report. Reads no file; imports no torch."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from transformer_cli.compute.memory import in_words

if TYPE_CHECKING:
    from transformer_cli.commands.diagnosis import Computing, Place, Places, Software

WIDTH = 80
LABEL = 11  # columns
UNKNOWN = "unknown"
TIE = "\u00a0"  # a space at which no line breaks


def diagnosis_as_json(software: "Software", places: "Places", computing: "Computing") -> str:
    """Returns all that was found, escaped to ASCII: a path may hold any bytes."""
    return json.dumps({"software": asdict(software), "places": asdict(places), "computing": asdict(computing)})


def software_as_text(found: "Software") -> str:
    """Returns what is installed, a line for each kind of thing."""
    lines = {
        "tfm": f"{found.tfm or UNKNOWN}, {found.folder}",
        "Python": f"{found.python}, {found.executable}",
        "system": found.system,
        "packages": _versions(found.packages),
        "extras": "; ".join(f"{extra}: {_versions(packages)}" for extra, packages in found.extras.items()),
        "variables": ", ".join(f"{name}={value}" for name, value in found.variables.items()),
    }
    return _lines(lines)


def places_as_text(found: "Places") -> str:
    """Returns where things lie, a line for each place."""
    locks = {True: "files can be written and locked", False: "files can be written, but not locked", None: ""}
    state = f"nothing can be written: {found.problem}" if found.problem else locks[found.locks]
    lines = {
        "folder": f"{found.folder}: {state}",
        "disk": _free(found.disk_free, found.disk_total),
        "data": _place(found.data, "dataset"),
        "runs": _place(found.runs, "run"),
        "downloads": _place(found.downloads, "file"),
    }
    if found.vectors.entries is not None:
        lines["vectors"] = _place(found.vectors, "file")
    if found.history.entries is not None:
        lines["history"] = _place(found.history, "file")
    return _lines(lines)


def computing_as_text(found: "Computing") -> str:
    """Returns with what tfm computes, a line for each part of it."""
    cores = f"{found.cores} {'core' if found.cores == 1 else 'cores'} to use"
    load = f", load {found.load:.1f} in the last minute" if found.load is not None else ""
    lines = {"processor": f"{found.cpu}, {cores}{load}", "memory": _free(found.memory_free, found.memory_total)}
    if found.problem is None:
        memory = f", {in_words(found.device_memory_free)} free" if found.device_memory_free is not None else ""
        lines["threads"] = str(found.threads)
        lines["device"] = f"auto is {found.device}{memory}: {found.device_reason}"
        lines["precision"] = f"auto is {found.precision}: {found.precision_reason}"
        lines["matrices"] = ", ".join(f"{name} {_rate(rate)}" for name, rate in found.rates.items())
    return _lines(lines)


def _lines(texts: Mapping[str, str]) -> str:
    """Returns labels and texts; a long text goes on below its beginning. Lines break at spaces, not at TIE."""
    return "\n".join(
        textwrap.fill(
            f"{label:<{LABEL}}{text}",
            WIDTH,
            subsequent_indent=" " * LABEL,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for label, text in texts.items()
        if text
    ).replace(TIE, " ")


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}{TIE}{version or f'is{TIE}not{TIE}installed'}" for name, version in packages.items())


def _place(found: "Place", unit: str) -> str:
    if found.entries is None:
        return f"{found.path}: not there yet"
    return f"{found.path}: {found.entries:,} {unit}{'' if found.entries == 1 else 's'}, {in_words(found.bytes)}"


def _free(free: int | None, total: int | None) -> str:
    known = [in_words(each) if each is not None else UNKNOWN for each in (free, total)]
    return f"{known[0]} free of {known[1]}"


def _rate(flops: float | None) -> str:
    if flops is None:
        return "cannot be computed"
    return f"{flops / 1e12:,.1f} TFLOP/s" if flops >= 1e12 else f"{flops / 1e9:,.1f} GFLOP/s"
