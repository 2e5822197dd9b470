"""The metrics of a site that its database knows; one of its servers tells them."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from discovery.log_status import UnknownStatus
from discovery.receive_status import ReceiveQueueStatus
from discovery.session_status import SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus
from lr_server.metrics.readings import Labelled, Reading, counters, gauges
from queues.database.standby_facts import StandbyFacts

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
    (
        "lrq_receive_snapshot_waits",
        "1 while a complete snapshot is not applied as a whole",
        lambda q: q.snapshot_waits,
    ),
    ("lrq_receive_subscribed", "1 while a subscriber of the client works here", lambda q: q.subscribed),
    ("lrq_receive_parked_entries", "Parked entries, which the listener refused", lambda q: q.parked),
    (
        "lrq_receive_refused_tries",
        "Failures of the listener in a row",
        lambda q: q.failure.tries if q.failure else 0,
    ),
)


def site_families(status: SiteStatus) -> Iterator[Metric]:
    """Yield the metrics of the site; each has one sample for each session or queue."""
    site = status.site
    yield from gauges(_SITE, ["site"], [((site,), status)])
    standbys = [] if status.standbys is None else [((site,), status.standbys)]
    yield from gauges(_STANDBYS, ["site"], standbys)
    unknown = [((site, each.client, each.destination), each) for each in status.log.unknown]
    yield from gauges(_UNKNOWN, ["site", "client", "destination"], unknown)
    sessions = [((site, each.client, each.destination), each) for each in status.sessions]
    yield from gauges(_SESSION, ["site", "client", "destination"], sessions)
    yield from counters(_SESSION_TOTALS, ["site", "client", "destination"], sessions)
    yield _states("lrq_session_state", "1 for the current state of the session, 0 for each other one", sessions)
    # The newest request comes first in the status, so in reverse it wins.
    newest = {(site, each.client, each.destination): each for each in reversed(status.snapshots)}
    yield _states(
        "lrq_snapshot_state", "1 for the state of the newest request for a snapshot, 0 for others", list(newest.items())
    )
    queues = [((site, each.client, each.source), each) for each in status.receive_queues]
    yield from gauges(_RECEIVE, ["site", "client", "source"], queues)
    yield from counters(_RECEIVE_TOTALS, ["site", "client", "source"], queues)


def _states(name: str, meaning: str, found: Sequence[Labelled[SessionStatus] | Labelled[SnapshotStatus]]) -> Metric:
    gauge = GaugeMetricFamily(name, meaning, labels=["site", "client", "destination", "state"])
    for labels, part in found:
        state = part.told_state if isinstance(part, SnapshotStatus) else part.state
        # A state without a sample would look like a session that is gone, so each state has one.
        for each in type(state):
            gauge.add_metric([*labels, each.value], each is state)
    return gauge
