"""Two torchrun agents as two nodes on one machine: killed processes are restarted, and the final weights are the same.

    .venv/bin/python scripts/two_nodes.py

The agents share a store in a third process, so that either of them may die. First a worker is killed with -9 within an
epoch, and torchrun restarts all workers; then each agent, which this script restarts as a scheduler would. At the end
the weights are compared with those of two undisturbed processes. (One process would differ from two by rounding, which
grows.) Linux only.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measure  # noqa: F401  # isort: skip  # it finds what is in tests/
from outcomes import weights
from torture import children, write_captions
from transformer_cli.runs.run import Run

CONFIG = """\
name: nodes
data:
  corpus: files
  files: {train: {source: train.de, target: train.en}, valid: {source: valid.de, target: valid.en}}
model: {d_model: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 64, max_length: 80, dropout: 0.0}
training: {epochs: 120, batch_size: 32, learning_rate: 5e-3, eps: 1e-2, save_minutes: 0.01, num_threads: 1,
  precision: float32, shards: 2, device: cpu}
"""  # eps: some gradients are 0 but for rounding, and Adam would make steps of learning_rate of them
STORE = """\
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(1e6)
"""
TORCHRUN, TFM = (sys.executable, "-m", "torch.distributed.run"), ("-m", "transformer_cli")
TRAIN = ("train", "--config", "config.yaml")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
TIMEOUT_S = 900.0


class Nodes:
    """Two agents, their store, and their run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = subprocess.Popen((sys.executable, "-c", STORE), stdout=subprocess.PIPE, text=True)
        assert self._store.stdout
        self._port = self._store.stdout.readline().strip()
        self.agents = [self._start(0), self._start(1)]

    def epochs(self) -> int:
        """The number of validated epochs."""
        history = self.folder / "runs/nodes/history.jsonl"
        return history.read_text(encoding="utf-8").count("\n") if history.exists() else 0

    def wait(self, until: Callable[[], bool]) -> None:
        """Waits for a condition. Raises RuntimeError if an agent fails, both end before, or after the timeout."""
        end = time.monotonic() + TIMEOUT_S
        while not until():
            codes = [agent.poll() for agent in self.agents]
            is_over = time.monotonic() > end or any(codes) or None not in codes  # ended well, but too early
            if is_over and not until():
                raise RuntimeError(
                    f"after {self.epochs()} epochs the agents ended with {codes}: see {self.folder}/*.log"
                )
            time.sleep(0.2)

    def some_epochs(self, then: str) -> None:
        """Waits for a little more than two epochs of training, and prints what comes next."""
        wanted = self.epochs() + 2
        self.wait(lambda: self.epochs() >= wanted)
        time.sleep(0.5)
        _say(f"epoch {self.epochs() + 1}: {then}")

    def kill_agent(self, node: int) -> None:
        """Kills the launcher of a node, restarts it, and waits until its worker has joined the other node's.

        Until then the killed launcher's worker, which is still alive, trains with the other node's.
        """
        self.agents[node].kill()
        self.agents[node].wait()
        self.agents[node] = self._start(node)
        self.wait(lambda: bool(children(self.agents[node].pid)))

    def close(self) -> None:
        """Ends all remaining processes."""
        for process in (*self.agents, self._store):
            with process:  # it is waited for, and its pipe is closed
                process.terminate()

    def _start(self, node: int) -> "subprocess.Popen[str]":
        place = (
            f"--nnodes 2 --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{self._port} --rdzv-id nodes"
        )
        command = [*TORCHRUN, *place.split(), "--rdzv-conf", "is_host=false", *TFM, *TRAIN]
        with (self.folder / f"node{node}.log").open("a") as log:
            return subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=log, text=True)


def main(folder: Path) -> float:
    """Trains in `folder` twice, undisturbed and disturbed. Returns the largest difference of a weight."""
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    write_captions(folder, train=1000, valid=30)
    _say("tfm prepare, and an undisturbed run")
    alone = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", *TFM, *TRAIN, "--set", "name=undisturbed"]
    for command in ([sys.executable, *TFM, "prepare", *TRAIN[1:]], alone):
        done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    nodes = Nodes(folder)
    try:
        nodes.some_epochs("killing the worker of node 1")
        os.kill(children(nodes.agents[1].pid)[0], signal.SIGKILL)
        for node in (1, 0):
            nodes.some_epochs(f"killing the agent of node {node}, and starting it again")
            nodes.kill_agent(node)
        nodes.wait(lambda: all(agent.poll() is not None for agent in nodes.agents))
    finally:
        nodes.close()
    one, other = (weights(Run.open(folder / "runs" / name)) for name in ("nodes", "undisturbed"))
    difference = max(float((one[name].double() - other[name].double()).abs().max()) for name in one)
    _say(f"{nodes.epochs()} epochs; the largest difference of a weight from the undisturbed run is {difference:.1e}")
    return difference


def _say(text: str) -> None:
    print(f"{time.strftime('%T')} {text}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary)) > 1e-6)
