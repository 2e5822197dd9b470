"""What a monitor sees of a site: metrics for Prometheus, from what `LogReplicationServer.status` tells. Pure.

Where something is counted up to a limit only, `read_status` says so.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

Facts = Mapping[str, Any]
#: A metric: its name, what it says, and how it is read from the facts of what it is about.
Reading = tuple[str, str, Callable[[Facts], float]]

_SITE: Final[Sequence[Reading]] = (
    ("lrq_owner", "1 where the server works for its site, 0 where it stands by", lambda s: s["server"]["owner"]),
    ("lrq_troubles", "What the server itself fails at just now", lambda s: len(s["server"]["troubles"])),
    ("lrq_log_seq", "End of the newest tick", lambda s: s["log"]["seq"]),
    ("lrq_log_trimmed_seq", "Up to where the log is forgotten", lambda s: s["log"]["trimmed_seq"]),
    ("lrq_log_waiting_entries", "Committed and in no tick yet, up to 10,000", lambda s: s["log"]["waiting"]),
)
_SESSION: Final[Sequence[Reading]] = (
    ("lrq_session_acked_seq", "Up to where the other site has the log durably", lambda s: s["acked_seq"]),
    ("lrq_session_lag_entries", "What it has not acknowledged, and others may be owed", lambda s: s["lag"]["entries"]),
    ("lrq_session_lag_bytes", "The same, in bytes of payload", lambda s: s["lag"]["bytes"]),
    ("lrq_session_lag_seconds", "Age of the oldest that it has not acknowledged", lambda s: s["lag"]["seconds"]),
    ("lrq_session_stalled", "1 where it is behind and does not get on", lambda s: s["stalled"]),
)
_RECEIVE_TOTALS: Final[Sequence[Reading]] = (
    ("lrq_receive_received", "Log entries that were stored", lambda q: q["received_total"]),
    ("lrq_receive_duplicates", "Log entries that came again and were skipped", lambda q: q["duplicates_total"]),
    ("lrq_receive_applied", "Log entries that a subscriber has applied", lambda q: q["applied_total"]),
)
_RECEIVE: Final[Sequence[Reading]] = (
    ("lrq_receive_received_seq", "Up to where the source's log was received", lambda q: q["received_seq"]),
    ("lrq_receive_source_seq", "How far the source's log was when it last told", lambda q: q["source_seq"]),
    ("lrq_receive_outstanding_entries", "Stored and not applied yet, up to 10,000", lambda q: q["outstanding"]),
    ("lrq_receive_oldest_seconds", "Age of the oldest that is not applied yet", lambda q: q["oldest_seconds"]),
    ("lrq_receive_parked_entries", "What the listener would not apply and was set aside", lambda q: q["parked"]),
    ("lrq_receive_refused_tries", "How often in a row the listener failed", lambda q: _tries(q["failure"])),
)


def _tries(failure: Facts | None) -> int:
    return failure["tries"] if failure else 0


def families(status: Facts) -> Iterator[Metric]:
    """Yield all metrics of a site; each is named once, with a sample for each session or queue.

    What they are good for is in `docs/operating.md`.
    """
    site = status["site"]
    yield from _gauges(_SITE, ["site"], [((site,), status)])
    sessions = [((site, each["client"], each["destination"]), each) for each in status["sessions"]]
    yield from _gauges(_SESSION, ["site", "client", "destination"], sessions)
    yield _states("lrq_session_state", "1 for the state that the session is in", sessions)
    # Newest first: of the requests for a site only that one counts.
    newest = {(site, each["client"], each["destination"]): each for each in reversed(status["snapshots"])}
    yield _states("lrq_snapshot_state", "1 for the state of the newest request for a snapshot", list(newest.items()))
    queues = [((site, each["client"], each["source"]), each) for each in status["receive_queues"]]
    yield from _gauges(_RECEIVE, ["site", "client", "source"], queues)
    for name, meaning, read in _RECEIVE_TOTALS:
        counter = CounterMetricFamily(name, meaning, labels=["site", "client", "source"])
        for labels, facts in queues:
            counter.add_metric(labels, read(facts))
        yield counter


def _gauges(
    readings: Sequence[Reading], names: Sequence[str], found: Sequence[tuple[Sequence[str], Facts]]
) -> Iterator[Metric]:
    for name, meaning, read in readings:
        gauge = GaugeMetricFamily(name, meaning, labels=names)
        for labels, facts in found:
            gauge.add_metric(labels, float(read(facts)))
        yield gauge


def _states(name: str, meaning: str, found: Sequence[tuple[Sequence[str], Facts]]) -> Metric:
    gauge = GaugeMetricFamily(name, meaning, labels=["site", "client", "destination", "state"])
    for labels, facts in found:
        gauge.add_metric([*labels, facts["state"]], 1)
    return gauge
