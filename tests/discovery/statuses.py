"""Statuses for tests: each function returns plain values, and a test replaces the ones of its interest."""

from dataclasses import replace
from typing import Any

from discovery.log_status import LogStatus
from discovery.receive_status import ReceivePhase, ReceiveQueueStatus
from discovery.server_status import ServerStatus
from discovery.session_status import Lag, SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus
from queues.names import ClientName, SiteId
from queues.states import SessionState, SnapshotState

_POLICY, _TOKYO, _LIMA = ClientName("policy"), SiteId("tokyo"), SiteId("lima")
_SITE = SiteStatus("paris", 0, (), LogStatus("b", 0, 0, None, 0), server=ServerStatus(owner=True, reason=""))
_SESSION = SessionStatus(
    _POLICY, _TOKYO, SessionState.LOG_ENTRY_SYNC, "live", "b", 0, Lag(), stalled=False, updated_us=0
)
_SNAPSHOT = SnapshotStatus(
    sync_id="s", client=_POLICY, destination=_TOKYO, state=SnapshotState.REQUESTED, reason="wanted", attempt=0, rows=0,
    bytes=0, progress="", expected_rows=0, sent_rows=0, share=None, rows_per_second=None, seconds_left=None,
    cut_seconds=None, error="", requested_us=0, updated_us=0,
)  # fmt: skip
_QUEUE = ReceiveQueueStatus(
    name="LRQ_Recv_policy_lima", client=_POLICY, source=_LIMA, received_seq=0, source_seq=0, applied_seq=0,
    phase=ReceivePhase.LOG, outstanding=0, more=False, oldest_seconds=0.0, received_total=0, duplicates_total=0,
    applied_total=0, parked=0, staging=None, sync_id="", failure=None,
)  # fmt: skip


def a_site(**changes: Any) -> SiteStatus:
    """Return the status of site paris: its server works, and all its lists are empty."""
    return replace(_SITE, **changes)


def a_server(**changes: Any) -> ServerStatus:
    """Return the status of a server that takes the ticks of its site."""
    return replace(ServerStatus(owner=True, reason=""), **changes)


def a_log(**changes: Any) -> LogStatus:
    """Return the status of an empty log."""
    return replace(_SITE.log, **changes)


def a_session(**changes: Any) -> SessionStatus:
    """Return the status of the session of policy with tokyo, which has received everything."""
    return replace(_SESSION, **changes)


def a_snapshot(**changes: Any) -> SnapshotStatus:
    """Return the status of a requested snapshot of policy for tokyo."""
    return replace(_SNAPSHOT, **changes)


def a_queue(**changes: Any) -> ReceiveQueueStatus:
    """Return the status of the receive queue of policy from lima, which is empty."""
    return replace(_QUEUE, **changes)
