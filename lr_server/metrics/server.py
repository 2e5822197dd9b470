"""The metrics that each server tells of itself."""

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from discovery.ring_status import RingStatus
from discovery.server_status import IngestStatus, ServerStatus
from discovery.site_status import SiteStatus
from lr_server.metrics.readings import Reading, counters, gauges

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
    ("lrq_ingest_forwarded", "Requests of producers that went on to the server that leads", lambda i: i.forwarded),
    ("lrq_ingest_groups", "Groups of requests that were stored; on SQLite each is one commit", lambda i: i.groups),
)
_REFUSED_TOTALS: Final[Sequence[Reading[int]]] = (
    ("lrq_ingest_refusals", "Refused requests of producers, by the kind of the refusal", float),
)
_RING: Final[Sequence[Reading[RingStatus]]] = (
    ("lrq_ring_leads", "1 if the member of this server leads the ring, 0 if not", lambda r: r.leader == r.rank),
    ("lrq_ring_trouble", "1 if the member is no part of a working ring, 0 if it is", lambda r: bool(r.trouble)),
    (
        "lrq_ring_fenced_timestamp_seconds",
        "Since when the member knows no leader that takes entries, in Unix time; 0 if it knows one",
        lambda r: r.fenced_us / 1e6,
    ),
    ("lrq_ring_generation", "The generation of the ring that the member has promised last", lambda r: r.generation),
    ("lrq_ring_newest_tick", "The newest tick in the log of the member", lambda r: r.newest),
    ("lrq_ring_released_tick", "The newest released tick that the member knows", lambda r: r.released),
    ("lrq_ring_trimmed_tick", "The newest trimmed tick of the member, 0 for a whole log", lambda r: r.trimmed),
)
_HELD: Final[Sequence[Reading[int]]] = (
    ("lrq_ring_held_tick", "The newest tick on the disk of a follower, as the leader knows it, by rank", float),
)


def server_families(status: SiteStatus) -> Iterator[Metric]:
    """Yield the metrics of the server that answers."""
    site = status.site
    yield _build_info(site)
    if status.server is not None:
        yield from gauges(_SERVER, ["site"], [((site,), status.server)])
        if status.server.ingest is not None:
            yield from gauges(_INGEST, ["site"], [((site,), status.server.ingest)])
            yield from counters(_INGEST_TOTALS, ["site"], [((site,), status.server.ingest)])
            kinds = sorted(status.server.ingest.refusals.items())
            yield from counters(_REFUSED_TOTALS, ["site", "kind"], [((site, kind), number) for kind, number in kinds])
        if status.server.ring is not None:
            yield from _ring_families(site, status.server.ring)


def _ring_families(site: str, ring: RingStatus) -> Iterator[Metric]:
    yield from gauges(_RING, ["site"], [((site,), ring)])
    held = [((site, str(rank)), end) for rank, end in enumerate(ring.held) if rank != ring.rank]
    yield from gauges(_HELD, ["site", "rank"], held)


def _build_info(site: str) -> Metric:
    try:
        installed = version("lrq")
    except PackageNotFoundError:
        installed = "unknown"
    gauge = GaugeMetricFamily("lrq_build_info", "1; the label is the version of lrq", labels=["site", "version"])
    gauge.add_metric([site, installed], 1)
    return gauge
