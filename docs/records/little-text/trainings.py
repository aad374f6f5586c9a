"""Trains and evaluates the runs of plan.py one after the other, and skips those that are done.

    python trainings.py WORK        trains, and evaluates on the validation text
    python trainings.py WORK test   evaluates finished runs on the test set, once each (those that plan.py reports)

WORK has the text of samples.py; datasets and runs are written there. configs/NAME.yaml and results/NAME.json are
written next to this script. If it is killed, the same command goes on. The plan is read again after each run.
"""

import json
import os
import resource
import runpy
import subprocess
import sys
import time
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
WORK = Path(sys.argv[1]).resolve()
TFM = os.environ.get("TFM", "tfm")


def plan():
    return runpy.run_path(str(HERE / "plan.py"))


def tfm(*arguments, seconds=None):
    """Runs a command and returns its standard output; adds its processor time to seconds[0]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (HERE / "trainings.log").open("a") as log:
        log.write(f"$ tfm {' '.join(map(str, arguments))}\n")
        log.flush()
        done = subprocess.run([TFM, *map(str, arguments)], cwd=WORK, stdout=subprocess.PIPE, stderr=log, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if seconds is not None:
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: tfm {' '.join(map(str, arguments))}")
    return done.stdout


def scores(name, split, *options):
    printed = json.loads(tfm("evaluate", name, "--split", split, "--json", *options))["results"][0]
    keep = [
        "split",
        "sentences",
        "loss",
        "bleu",
        "bleu_interval",
        "chrf",
        "chrf_interval",
        "bleu_signature",
        "chrf_signature",
        "seconds",
    ]
    return {key: printed[key] for key in keep}


def train(job):
    name, path, result = job["name"], HERE / f"configs/{job['name']}.yaml", HERE / f"results/{job['name']}.json"
    started = HERE / f"results/{name}.seconds"  # processor seconds, one number per command, also of killed queues
    path.parent.mkdir(exist_ok=True)
    result.parent.mkdir(exist_ok=True)
    spent = json.loads(started.read_text()) if started.exists() else []
    before = []
    if "join" in job:
        (WORK / "back").mkdir(exist_ok=True)
    for command in job.get("before", []):  # such as translating the other side's text
        tfm(*command, seconds=before)
    for *parts, whole in job.get("join", []):
        (WORK / whole).write_bytes(b"".join((WORK / part).read_bytes() for part in parts))
    path.write_text(yaml.safe_dump(job["config"], sort_keys=False, allow_unicode=True, width=110))
    copy = WORK / f"{name}.yaml"
    copy.write_text(path.read_text())
    begin = time.time()
    tfm("prepare", "--config", copy, seconds=spent)
    tfm("train", "--config", copy, *job.get("train", []), seconds=spent)
    started.write_text(json.dumps(spent))
    row = {
        "name": name,
        **job["about"],
        "cpu_seconds": round(sum(spent), 1),
        "before_cpu_seconds": round(sum(before), 1),
        "wall_seconds": round(time.time() - begin, 1),
        "commit": plan()["COMMIT"],
    }
    history = [json.loads(line) for line in (WORK / f"runs/{name}/history.jsonl").read_text().splitlines()]
    row["steps"], row["validations"] = history[-1]["step"], len(history)
    row["best_step"] = min(history, key=lambda each: each.get("valid_loss", 1e9))["step"]
    for split in job["config"]["data"]["files"]:
        if split.startswith("valid"):
            row[split] = scores(name, split)
    result.write_text(json.dumps(row, indent=1))


def main():
    if sys.argv[2:] == ["test"]:
        for name in plan()["REPORTED"]:
            result = HERE / f"results/{name}.json"
            if not result.exists():
                continue
            row = json.loads(result.read_text())
            for split in plan()["CONFIG"](name)["data"]["files"]:
                if split != "train" and split not in row:
                    row[split] = scores(name, split)
                if name in plan()["BEAM"] and split in ("valid", "test") and f"{split} beam 5" not in row:
                    row[f"{split} beam 5"] = scores(name, split, "--set", "decoding.beam_size=5")
            result.write_text(json.dumps(row, indent=1))
        return
    failed = set()
    while True:
        jobs = [job for job in plan()["JOBS"] if not (HERE / f"results/{job['name']}.json").exists()]
        jobs = [job for job in jobs if job["name"] not in failed]
        if not jobs:
            break
        job = jobs[0]
        claim = HERE / f"results/{job['name']}.claim"  # two queues can run side by side; delete it after a kill
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            failed.add(job["name"])
            continue
        try:
            train(job)
        except Exception as error:
            failed.add(job["name"])
            with (HERE / "trainings.log").open("a") as log:
                log.write(f"FAILED {job['name']}: {error!r}\n")


main()
