"""The metrics of a server: read from the database at each request, and served over HTTP for Prometheus.

Each server tells its own part. One of several servers also tells the site, so that sums over servers are right.
`docs/operating.md` gives the use of each metric. `discovery.session_status` names the counts that have a limit.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from discovery.log_status import UnknownStatus
from discovery.receive_status import ReceiveQueueStatus
from discovery.ring_status import RingStatus
from discovery.server_status import IngestStatus, ServerStatus
from discovery.session_status import SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus
from lr_server.health import Health
from lr_server.health_pages import LIVE, READY, Page, with_pages
from lr_server.metrics_http import bounded_server
from lr_server.setting_types import metrics_endpoint
from lr_server.traffic_metrics import ServerTraffic, traffic_families
from queues.database.standby_facts import StandbyFacts
from queues.errors import ConfigurationError, LrqError
from queues.logs import logger

log = logger("lrq.metrics")

#: The longest wait, in seconds, for the database read of another request; then the database counts as down.
PATIENCE: Final = 5.0

Part = TypeVar("Part")
#: A metric: its name, its meaning, and its value in one part of a status.
Reading = tuple[str, str, Callable[[Part], float]]
#: A part of a status with the labels of its samples.
Labelled = tuple[Sequence[str], Part]

_SERVER: Final[Sequence[Reading[ServerStatus]]] = (
    ("lrq_owner", "1 if the server takes the ticks of its site, 0 if another one does", lambda s: s.owner),
    ("lrq_ranges", "Ranges of sessions that the server leads", lambda s: s.ranges),
    ("lrq_troubles", "Parts of the server that fail now", lambda s: len(s.troubles)),
)
_INGEST: Final[Sequence[Reading[IngestStatus]]] = (
    ("lrq_ingest_waiting", "Requests of producers that wait to be stored", lambda i: i.waiting),
    ("lrq_ingest_streams", "Open streams of producers", lambda i: i.streams),
)
_INGEST_TOTALS: Final[Sequence[Reading[IngestStatus]]] = (
    ("lrq_ingest_requests", "Requests of producers that passed the checks", lambda i: i.requests),
    ("lrq_ingest_messages", "Messages in these requests", lambda i: i.messages),
    ("lrq_ingest_groups", "Groups of requests that were stored; on SQLite each is one commit", lambda i: i.groups),
)
_REFUSED_TOTALS: Final[Sequence[Reading[int]]] = (
    ("lrq_ingest_refusals", "Refused requests of producers, by the kind of the refusal", float),
)
_RING: Final[Sequence[Reading[RingStatus]]] = (
    ("lrq_ring_leads", "1 if the member of this server leads the ring, 0 if not", lambda r: r.leader == r.rank),
    ("lrq_ring_trouble", "1 if the member is no part of a working ring, 0 if it is", lambda r: bool(r.trouble)),
    ("lrq_ring_generation", "The generation of the ring that the member has promised last", lambda r: r.generation),
    ("lrq_ring_newest_tick", "The newest tick in the log of the member", lambda r: r.newest),
    ("lrq_ring_released_tick", "The newest released tick that the member knows", lambda r: r.released),
    ("lrq_ring_trimmed_tick", "The newest trimmed tick of the member, 0 for a whole log", lambda r: r.trimmed),
)
_HELD: Final[Sequence[Reading[int]]] = (
    ("lrq_ring_held_tick", "The newest tick on the disk of a follower, as the leader knows it, by rank", float),
)
_SITE: Final[Sequence[Reading[SiteStatus]]] = (
    ("lrq_servers", "Running servers of the site", lambda s: len(s.living)),
    ("lrq_log_seq", "End of the newest tick", lambda s: s.log.seq),
    ("lrq_log_trimmed_seq", "Entries up to this sequence number are trimmed", lambda s: s.log.trimmed_seq),
    ("lrq_log_waiting_entries", "Committed entries that are in no tick yet, up to 10,000", lambda s: s.log.waiting),
    (
        "lrq_log_unordered_entries",
        "Entries without a place in the order of commits, which are not sent",
        lambda s: sum(each.waiting + each.dropped for each in s.log.ordering.unordered),
    ),
)
_STANDBYS: Final[Sequence[Reading[StandbyFacts]]] = (
    ("lrq_standbys_asked", "Synchronous standby servers that must have each commit", lambda s: s.asked),
    (
        "lrq_standbys_present",
        "Synchronous standby servers that follow now; NaN if the role may not see them",
        lambda s: math.nan if s.present is None else s.present,
    ),
    (
        "lrq_commit_wait_seconds",
        "Age of the oldest commit that waits for standby servers, if above one second",
        lambda s: s.waiting_seconds,
    ),
)
_UNKNOWN: Final[Sequence[Reading[UnknownStatus]]] = (
    ("lrq_unknown_entries", "Entries for a destination that is no peer, up to 10,000", lambda u: u.entries),
    (
        "lrq_unknown_oldest_seconds",
        "Age of the oldest entry for a destination that is no peer",
        lambda u: u.oldest_seconds,
    ),
    (
        "lrq_unknown_dropped_entries",
        "Entries that were dropped for a destination that was no peer",
        lambda u: u.dropped,
    ),
)
_SESSION: Final[Sequence[Reading[SessionStatus]]] = (
    ("lrq_session_acked_seq", "The destination has the log durably up to this sequence number", lambda s: s.acked_seq),
    (
        "lrq_session_applied_seq",
        "The destination's subscriber has applied the log up to this sequence number",
        lambda s: s.applied_seq or 0,
    ),
    ("lrq_session_lag_entries", "Unacknowledged entries; above 10,000 an upper bound", lambda s: s.lag.entries),
    ("lrq_session_lag_bytes", "Payload bytes of the unacknowledged entries", lambda s: s.lag.bytes),
    ("lrq_session_lag_seconds", "Age of the oldest unacknowledged entry", lambda s: s.lag.seconds),
    (
        "lrq_session_applied_lag_entries",
        "Entries that the destination has not applied; above 10,000 an upper bound",
        lambda s: s.applied_lag.entries,
    ),
    (
        "lrq_session_applied_lag_seconds",
        "Age of the oldest entry that the destination has not applied",
        lambda s: s.applied_lag.seconds,
    ),
    (
        "lrq_session_generation",
        "The generation that the session tells its destination; 0 while no server leads the session",
        lambda s: s.generation,
    ),
    (
        "lrq_session_window_percent",
        "The used share of the window of frames in flight; at 100 the session waits for answers",
        lambda s: s.window_percent,
    ),
    ("lrq_session_stalled", "1 if the session is behind without progress", lambda s: s.stalled),
    (
        "lrq_session_unprovided",
        "1 if the session waits for a snapshot, and no provider of its client runs",
        lambda s: s.unprovided,
    ),
    (
        "lrq_session_unapplied",
        "1 if the destination has entries that it should have applied by now",
        lambda s: s.unapplied,
    ),
)
_SESSION_TOTALS: Final[Sequence[Reading[SessionStatus]]] = (
    ("lrq_session_replaced", "Entries not sent, because a later entry of the item was sent", lambda s: s.replaced),
)
_RECEIVE_TOTALS: Final[Sequence[Reading[ReceiveQueueStatus]]] = (
    ("lrq_receive_received", "Log entries and snapshot rows that were stored", lambda q: q.received_total),
    ("lrq_receive_duplicates", "Log entries that were received again and skipped", lambda q: q.duplicates_total),
    (
        "lrq_receive_applied",
        "Log entries and snapshot rows that a subscriber has applied or parked",
        lambda q: q.applied_total,
    ),
)
_RECEIVE: Final[Sequence[Reading[ReceiveQueueStatus]]] = (
    ("lrq_receive_received_seq", "The source's log is received up to this sequence number", lambda q: q.received_seq),
    ("lrq_receive_source_seq", "End of the source's log in its last message", lambda q: q.source_seq),
    ("lrq_receive_outstanding_entries", "Stored entries, not applied yet, up to 10,000", lambda q: q.outstanding),
    ("lrq_receive_oldest_seconds", "Age of the oldest unapplied entry", lambda q: q.oldest_seconds),
    ("lrq_receive_subscribed", "1 while a subscriber of the client works here", lambda q: q.subscribed),
    ("lrq_receive_parked_entries", "Parked entries, which the listener refused", lambda q: q.parked),
    (
        "lrq_receive_refused_tries",
        "Failures of the listener in a row",
        lambda q: q.failure.tries if q.failure else 0,
    ),
)


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
    yield from _server_families(status)
    yield from traffic_families(status.site, traffic)
    if tells_site(status):
        yield from _site_families(status)


def _server_families(status: SiteStatus) -> Iterator[Metric]:
    site = status.site
    yield _build_info(site)
    if status.server is not None:
        yield from _gauges(_SERVER, ["site"], [((site,), status.server)])
        if status.server.ingest is not None:
            yield from _gauges(_INGEST, ["site"], [((site,), status.server.ingest)])
            yield from _counters(_INGEST_TOTALS, ["site"], [((site,), status.server.ingest)])
            kinds = sorted(status.server.ingest.refusals.items())
            yield from _counters(_REFUSED_TOTALS, ["site", "kind"], [((site, kind), number) for kind, number in kinds])
        if status.server.ring is not None:
            yield from _ring_families(site, status.server.ring)


def _ring_families(site: str, ring: RingStatus) -> Iterator[Metric]:
    yield from _gauges(_RING, ["site"], [((site,), ring)])
    held = [((site, str(rank)), end) for rank, end in enumerate(ring.held) if rank != ring.rank]
    yield from _gauges(_HELD, ["site", "rank"], held)


def _site_families(status: SiteStatus) -> Iterator[Metric]:
    """Yield the metrics that the database knows; each has one sample for each session or queue."""
    site = status.site
    yield from _gauges(_SITE, ["site"], [((site,), status)])
    standbys = [] if status.standbys is None else [((site,), status.standbys)]
    yield from _gauges(_STANDBYS, ["site"], standbys)
    unknown = [((site, each.client, each.destination), each) for each in status.log.unknown]
    yield from _gauges(_UNKNOWN, ["site", "client", "destination"], unknown)
    sessions = [((site, each.client, each.destination), each) for each in status.sessions]
    yield from _gauges(_SESSION, ["site", "client", "destination"], sessions)
    yield from _counters(_SESSION_TOTALS, ["site", "client", "destination"], sessions)
    yield _states("lrq_session_state", "1 for the current state of the session, 0 for each other one", sessions)
    # The newest request comes first in the status, so in reverse it wins.
    newest = {(site, each.client, each.destination): each for each in reversed(status.snapshots)}
    yield _states(
        "lrq_snapshot_state", "1 for the state of the newest request for a snapshot, 0 for others", list(newest.items())
    )
    queues = [((site, each.client, each.source), each) for each in status.receive_queues]
    yield from _gauges(_RECEIVE, ["site", "client", "source"], queues)
    yield from _counters(_RECEIVE_TOTALS, ["site", "client", "source"], queues)


def _gauges(
    readings: Sequence[Reading[Part]], names: Sequence[str], found: Sequence[Labelled[Part]]
) -> Iterator[Metric]:
    for name, meaning, read in readings:
        gauge = GaugeMetricFamily(name, meaning, labels=names)
        for labels, part in found:
            gauge.add_metric(labels, float(read(part)))
        yield gauge


def _counters(
    readings: Sequence[Reading[Part]], names: Sequence[str], found: Sequence[Labelled[Part]]
) -> Iterator[Metric]:
    for name, meaning, read in readings:
        counter = CounterMetricFamily(name, meaning, labels=names)
        for labels, part in found:
            counter.add_metric(labels, read(part))
        yield counter


def _states(name: str, meaning: str, found: Sequence[Labelled[SessionStatus] | Labelled[SnapshotStatus]]) -> Metric:
    gauge = GaugeMetricFamily(name, meaning, labels=["site", "client", "destination", "state"])
    for labels, part in found:
        state = part.told_state if isinstance(part, SnapshotStatus) else part.state
        # A state without a sample would look like a session that is gone, so each state has one.
        for each in type(state):
            gauge.add_metric([*labels, each.value], each is state)
    return gauge


def _build_info(site: str) -> Metric:
    try:
        installed = version("lrq")
    except PackageNotFoundError:
        installed = "unknown"
    gauge = GaugeMetricFamily("lrq_build_info", "1; the label is the version of lrq", labels=["site", "version"])
    gauge.add_metric([site, installed], 1)
    return gauge


class RegistryServer:
    """A running HTTP server for the metrics of one registry, and for some pages; call `stop` at the end."""

    def __init__(self, address: str, registry: CollectorRegistry, pages: Mapping[str, Page] | None = None) -> None:
        """Listen at *address*, `host:port`; raise `ConfigurationError` if that is impossible."""
        endpoint = metrics_endpoint(address)
        ProcessCollector(registry=registry)
        try:
            app = with_pages(make_wsgi_app(registry), pages or {})
            self._server = bounded_server(endpoint.host, endpoint.port, app)
        except OSError as error:
            raise ConfigurationError(f"cannot serve metrics at {address}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="lrq-metrics", daemon=True)
        self._thread.start()
        #: The address of the server, with port 0 replaced by the real port.
        self.address = replace(endpoint, port=self._server.server_port).address

    def stop(self) -> None:
        """Stop listening, and wait until the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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
        registry.register(_Site(status, traffic, patience))
        pages = {} if health is None else {LIVE: ("live", health.stuck), READY: ("ready", health.troubles)}
        super().__init__(address, registry, pages)


class _Site(Collector):
    def __init__(self, status: Callable[[], SiteStatus], traffic: Callable[[], ServerTraffic], patience: float) -> None:
        self._status = status
        self._traffic = traffic
        self._patience = patience
        # Only one request reads the database, so that a hanging database does not block many threads.
        self._asking = threading.Lock()

    def describe(self) -> Iterator[Metric]:
        """Yield no metrics at registration, because their names would cost a read of the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield `lrq_database_up`, and the `families` if the database can be read."""
        found = self._found()
        yield GaugeMetricFamily("lrq_database_up", "1 if the site's database can be read", value=found is not None)
        if found is not None:
            yield from families(found, self._traffic())

    def _found(self) -> SiteStatus | None:
        if not self._asking.acquire(timeout=self._patience):
            return None
        try:
            return self._status()
        except LrqError as error:
            log.warning("metrics cannot be read", reason=str(error))
            return None
        finally:
            self._asking.release()
