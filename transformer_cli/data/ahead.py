"""Training text that a worker process cuts anew for the next step, while this process takes the step before it.

The cuts are those of `SampledText`; only when they are made is decided here. A thread would not do: it holds Python's
lock while it cuts, and a step would wait for it. Knows no steps and no models.
"""

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from transformer_cli.data.codec import Codec, SubwordCodec
from transformer_cli.data.dataset import EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.data.sampling import SampledText
from transformer_cli.data.workers import answer_requests, ask, end, start

Cut = tuple[EncodedSplit, list[Rows]]


class CutAhead:
    """A text that is cut batch by batch; in a `with` block, which has a worker, the next ones can be cut ahead."""

    def __init__(self, text: SampledText) -> None:
        self.text = text
        self._worker: subprocess.Popen[bytes] | None = None
        self._begun: tuple[int, Sequence[Rows], Future[Cut]] | None = None  # the epoch, the batches, their cuts

    def __enter__(self) -> "CutAhead":
        self._worker = start(__name__, [_settings(codec) for codec in self.text.codecs])
        self._there = _CutThere(**vars(self.text), worker=self._worker)
        self._thread = ThreadPoolExecutor(1)  # which waits for the worker
        return self

    def __exit__(self, *_: object) -> None:
        assert self._worker
        self._worker.kill()  # even if it is at work: nothing is lost by that
        self._thread.shutdown()
        end(self._worker)
        self._worker = self._begun = None

    def cut(self, batches: Sequence[Rows], *, epoch: int, first: int, following: Sequence[Rows] = ()) -> Cut:
        """As `SampledText.cut`. following: the batches of the epoch that come next, which are then cut ahead."""
        begun, self._begun = self._begun, None
        is_begun = begun and begun[0] == epoch and list(map(id, begun[1])) == list(map(id, batches))
        found = begun[2].result() if begun and is_begun else self.text.cut(batches, epoch=epoch, first=first)
        if self._worker and len(following):
            job = self._thread.submit(self._there.cut, following, epoch=epoch, first=first + len(batches))
            self._begun = epoch, following, job
        return found


@dataclass(frozen=True)
class _CutThere(SampledText):
    """A text whose lines are cut by a worker."""

    worker: "subprocess.Popen[bytes]"

    def sample(self, side: int, lines: list[str], seed: int) -> list[list[int]]:
        try:
            found: list[list[int]] = ask(self.worker, (side, lines, seed))
        except EOFError:  # somebody has killed it: this takes longer, but the cuts are the same
            return super().sample(side, lines, seed)
        return found


Settings = tuple[bool, bytes, str, float]


def _settings(codec: Codec) -> Settings:
    assert isinstance(codec, SubwordCodec), "no other codec samples"
    return codec.lowercase, codec.model, codec.algorithm, codec.dropout


def serve() -> None:
    """Run a worker that cuts lines."""

    def opened(settings: Sequence[Settings]) -> Callable[[tuple[int, list[str], int]], list[list[int]]]:
        codecs = [SubwordCodec(*each) for each in settings]  # type: ignore[arg-type]  # a str, not one of two
        return lambda request: codecs[request[0]].sample(*request[1:])

    answer_requests(opened)
