"""The metrics of `lrq work`: entries, failures and the time of batches, for each client and source."""

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lr_client.subscriber.observer import DeliveryObserver
from lr_server.metrics.registry_server import RegistryServer
from lr_server.session.traffic import BOUNDS

_LABELS: Final = ("client", "source")
#: Upper bounds of the time of a batch, in seconds.
_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


class WorkerMetrics:
    """Counts in this process, since its start."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._registry = CollectorRegistry()
        self.entries: Final = Counter(
            "lrq_worker_entries",
            "Entries and snapshot rows that the listener applied",
            _LABELS,
            registry=self._registry,
        )
        self.failures: Final = Counter(
            "lrq_worker_failures", "Errors of the listener, or of the delivery to it", _LABELS, registry=self._registry
        )
        self.seconds: Final = Histogram(
            "lrq_worker_batch_seconds",
            "Seconds of a transaction that applied entries",
            _LABELS,
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.delays: Final = Histogram(
            "lrq_worker_commit_to_applied_seconds",
            "Seconds from the commit of a source transaction to its application here, by the clocks of both sites",
            _LABELS,
            buckets=BOUNDS,
            registry=self._registry,
        )
        self._active = Gauge(
            "lrq_worker_active", "1 while this process applies entries, 0 while it stands by", ["client"],
            registry=self._registry,
        )  # fmt: skip

    def show_active(self, client: str, is_active: Callable[[], bool]) -> None:
        """Show whether the subscription of *client* works."""
        self._active.labels(client).set_function(lambda: float(is_active()))

    def serve(self, address: str) -> RegistryServer:
        """Serve the metrics at *address*, `host:port`; raise `ConfigurationError` if that is impossible."""
        return RegistryServer(address, self._registry)


class ClientCounter(DeliveryObserver):
    """Counts the deliveries of one client; `total` is the number of applied entries."""

    def __init__(self, metrics: WorkerMetrics, client: str) -> None:
        """Count into *metrics*."""
        self._metrics = metrics
        self._client = client
        self._applied: dict[str, int] = {}

    @property
    def total(self) -> int:
        """The entries and snapshot rows that were applied, of all sources."""
        return sum(list(self._applied.values()))

    def applied(self, source_id: str, entries: int, seconds: float) -> None:
        """Count *entries*; one thread delivers each source."""
        self._applied[source_id] = self._applied.get(source_id, 0) + entries
        self._metrics.entries.labels(self._client, source_id).inc(entries)
        self._metrics.seconds.labels(self._client, source_id).observe(seconds)

    def delays(self, source_id: str, seconds: Sequence[float]) -> None:
        """Count each source transaction with its delay."""
        histogram = self._metrics.delays.labels(self._client, source_id)
        for each in seconds:
            histogram.observe(each)

    def failed(self, source_id: str, error: Exception) -> None:  # noqa: ARG002 - the log has the error
        """Count one error."""
        self._metrics.failures.labels(self._client, source_id).inc()
