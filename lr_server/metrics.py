"""Serves a server's metrics over HTTP, for Prometheus to fetch; each time they are read anew."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lr_server.setting_types import metrics_endpoint
from lr_server.telemetry import families
from queues.errors import ConfigurationError, LrqError
from queues.logs import logger

log = logger("lrq.metrics")

#: How long one waits, in seconds, for another one's look at the database; then that cannot be read.
PATIENCE: Final = 5.0


class MetricsServer:
    """A running one; `stop` it."""

    def __init__(self, address: str, status: Callable[[], Mapping[str, Any]], *, patience: float = PATIENCE) -> None:
        """Listen at *address*, `host:port`; raise `ConfigurationError` where nobody can."""
        endpoint = metrics_endpoint(address)
        registry = CollectorRegistry()
        registry.register(_Site(status, patience))
        ProcessCollector(registry=registry)
        try:
            self._server, self._thread = start_http_server(endpoint.port, endpoint.host, registry)
        except OSError as error:
            raise ConfigurationError(f"cannot serve metrics at {address}: {error.strerror}") from error
        #: Where it listens, with port 0 replaced by the real one.
        self.address = replace(endpoint, port=self._server.server_port).address

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Site(Collector):
    def __init__(self, status: Callable[[], Mapping[str, Any]], patience: float) -> None:
        self._status = status
        self._patience = patience
        # A database that hangs must not gather threads that ask it.
        self._asking = threading.Lock()

    def describe(self) -> Iterator[Metric]:
        """Name nothing ahead: that would ask the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """See `telemetry.families`; of a database that cannot be read nothing but that."""
        found = self._found()
        yield GaugeMetricFamily("lrq_database_up", "1 where the site's database can be read", value=found is not None)
        if found is not None:
            yield from families(found)

    def _found(self) -> Mapping[str, Any] | None:
        if not self._asking.acquire(timeout=self._patience):
            return None
        try:
            return self._status()
        except LrqError as error:
            log.warning("metrics cannot be read", reason=str(error))
            return None
        finally:
            self._asking.release()
