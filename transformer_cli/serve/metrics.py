"""What `/metrics` tells Prometheus. The one owner of prometheus_client. Knows no addresses and no translation."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)


class Metrics:
    """Counts since the server has started."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, n_waiting: Callable[[], int]) -> None:
        """n_waiting: how many lines wait to be translated."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        labels = ("address", "status")
        self.requests = Histogram("tfm_request_seconds", "Requests, by status.", labels, registry=self._registry)
        self.source_tokens = Counter("tfm_source_tokens", "Tokens that were translated.", registry=self._registry)
        self.reloads = Counter("tfm_reloads", "Reloads, by outcome.", ("outcome",), registry=self._registry)
        waiting = Gauge("tfm_waiting_lines", "Lines that wait to be translated.", registry=self._registry)
        waiting.set_function(n_waiting)

    def text(self) -> bytes:
        return generate_latest(self._registry)
