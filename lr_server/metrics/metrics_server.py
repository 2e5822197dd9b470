"""The metrics of a server: read from the database at each request, and served over HTTP for Prometheus.

Each server tells its own part. One of several servers also tells the site, so that sums over servers are right.
`docs/operating.md` gives the use of each metric. `discovery.session_status` names the counts that have a limit.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from discovery.site_status import SiteStatus
from lr_server.health import Health
from lr_server.health_pages import LIVE, READY
from lr_server.metrics.registry_server import RegistryServer
from lr_server.metrics.server import server_families
from lr_server.metrics.shared_reading import SharedReading
from lr_server.metrics.site import site_families
from lr_server.metrics.traffic import ServerTraffic, traffic_families
from queues.errors import LrqError
from queues.logs import logger
from queues.words import in_words

log = logger("lrq.metrics")

#: The longest wait of a request for the reading of the database, in seconds; then the database counts as down.
PATIENCE: Final = 5.0


def tells_site(status: SiteStatus) -> bool:
    """Return whether the answering server tells the metrics of the whole site. Pure.

    The sequencer tells them. Without a sequencer, the first of the living servers does, by their names. The servers
    of a ring have no common database, so only the leader tells.
    """
    server, sequencer = status.server, status.server_owner
    if server is None or server.owner:
        return True
    if server.ring is not None:
        return False
    if sequencer is not None and sequencer.alive:
        return False
    return server.name == min((each.name for each in status.living), default=server.name)


def families(status: SiteStatus, traffic: ServerTraffic = ServerTraffic()) -> Iterator[Metric]:  # noqa: B008 - frozen
    """Yield the metrics of the answering server and its *traffic*, and those of the site if the server tells them."""
    yield from server_families(status)
    yield from traffic_families(status.site, traffic)
    if tells_site(status):
        yield from site_families(status)


class MetricsServer(RegistryServer):
    """Serves the metrics of a server, and the pages of its health."""

    def __init__(
        self,
        address: str,
        status: Callable[[], SiteStatus],
        *,
        traffic: Callable[[], ServerTraffic] = ServerTraffic,
        health: Health | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Listen at *address*, `host:port`; raise `ConfigurationError` if that is impossible."""
        registry = CollectorRegistry()
        registry.register(_Site(status, traffic, patience, lambda: health is not None and health.is_silent))
        pages = {} if health is None else {LIVE: ("live", health.stuck), READY: ("ready", health.troubles)}
        super().__init__(address, registry, pages)


class _Site(Collector):
    def __init__(
        self,
        status: Callable[[], SiteStatus],
        traffic: Callable[[], ServerTraffic],
        patience: float,
        is_silent: Callable[[], bool],
    ) -> None:
        self._status = status
        self._is_silent = is_silent
        self._traffic = traffic
        self._shared = SharedReading(self._read, patience)

    def describe(self) -> Iterator[Metric]:
        """Yield no metrics at registration, because their names would cost a read of the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield `lrq_database_up`, and the `families` if the database can be read."""
        # Otherwise each request would wait for a database that is known to be away.
        found = None if self._is_silent() else self._shared.get()
        yield GaugeMetricFamily("lrq_database_up", "1 if the site's database can be read", value=found is not None)
        if found is not None:
            yield from families(found, self._traffic())

    def _read(self) -> SiteStatus | None:
        try:
            return self._status()
        except LrqError as error:
            log.warning("metrics cannot be read", reason=str(error))
        except Exception as error:
            # Without a sample of the database, no alert would tell a damaged file.
            log.exception("metrics cannot be read", reason=in_words(error))
        return None
