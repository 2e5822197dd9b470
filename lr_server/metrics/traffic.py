"""The metrics of the traffic of one server: each server tells its own, and none the site's."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from lr_server.session.traffic import BOUNDS, Delays, TrafficFacts
from queues.send_log.port import SessionKey
from sink.transport.received_bytes import ReceivedStream


class ServerTraffic(NamedTuple):
    """The traffic of one server since its start: of its sessions, and of the streams of other sites."""

    sessions: Mapping[SessionKey, TrafficFacts] = {}
    received_bytes: Mapping[ReceivedStream, int] = {}


#: The upper bounds as labels of Prometheus.
_LABELS: Final = (*map(str, BOUNDS), "+Inf")
_SESSION: Final = ("site", "client", "destination")
_TOTALS: Final[tuple[tuple[str, str, Callable[[TrafficFacts], float]], ...]] = (
    ("lrq_session_sent_bytes", "Bytes of frames that the session sent over the network", lambda t: t.sent_bytes),
    (
        "lrq_session_reconnects",
        "Attempts of the session to connect, after its first one and the planned ones",
        lambda t: t.reconnects,
    ),
)
_DELAYS: Final[tuple[tuple[str, str, Callable[[TrafficFacts], Delays]], ...]] = (
    (
        "lrq_session_commit_to_sink_seconds",
        "Seconds from an entry to the acknowledgement that the destination has it durably",
        lambda t: t.to_sink,
    ),
    (
        "lrq_session_commit_to_applied_seconds",
        "Seconds from an entry to the word of the destination that its subscriber has applied it",
        lambda t: t.to_applied,
    ),
)


def traffic_families(site: str, traffic: ServerTraffic) -> Iterator[Metric]:
    """Yield the metrics of the *traffic* of one server of *site*."""
    for name, meaning, read in _TOTALS:
        counter = CounterMetricFamily(name, meaning, labels=_SESSION)
        for owed, facts in traffic.sessions.items():
            counter.add_metric([site, *owed], read(facts))
        yield counter
    for name, meaning, delays in _DELAYS:
        histogram = HistogramMetricFamily(name, meaning, labels=_SESSION)
        for owed, facts in traffic.sessions.items():
            found = delays(facts)
            histogram.add_metric([site, *owed], _buckets(found), found.seconds)
        yield histogram
    received = CounterMetricFamily(
        "lrq_receive_bytes", "Bytes of frames that were accepted from the network", labels=("site", "client", "source")
    )
    for stream, number in sorted(traffic.received_bytes.items()):
        received.add_metric([site, *stream], number)
    yield received


def _buckets(delays: Delays) -> list[tuple[str, float]]:
    found, upto = [], 0
    for label, number in zip(_LABELS, delays.numbers, strict=True):
        upto += number
        found.append((label, float(upto)))
    return found
