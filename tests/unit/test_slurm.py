"""scripts/slurm/: the commands of the batch scripts, with stand-ins for Slurm and tfm."""

import os
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts/slurm"
STAND_INS = {
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "scontrol": 'if [ "$1" = show ]; then printf "node7\\nnode8\\n"; else echo "scontrol $*"; fi',
    "torchrun": 'echo "threads $OMP_NUM_THREADS, torchrun $*"; exit "$FAILS"',
}
ALLOCATED = {"SLURM_CPUS_PER_TASK": "8", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2", "SLURM_JOB_ID": "42"}


def run(script: str, folder: Path, **variables: str) -> tuple[int, str]:
    for name, body in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FAILS": "0", **ALLOCATED, **variables}
    done = subprocess.run(["bash", SCRIPTS / script], env=environment, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout


def test_slurm_script_starts_launchers_and_requeues_failures(tmp_path: Path) -> None:
    started = (
        "threads 2, torchrun --nnodes 2 --nproc-per-node 4 --max-restarts 3 --rdzv-backend c10d "
        "--rdzv-endpoint node7:29500 --rdzv-id 42-{} -m transformer_cli train --config big.yaml\n"
    )
    given = {"CONFIG": "big.yaml", "PROCESSES": "4"}
    assert run("train.sh", tmp_path, **given) == (0, started.format(0))
    failed = {**given, "FAILS": "1"}
    assert run("train.sh", tmp_path, **failed) == (0, f"{started.format(0)}scontrol requeue 42\n")
    assert run("train.sh", tmp_path, **failed, SLURM_RESTART_COUNT="20") == (1, started.format(20))
