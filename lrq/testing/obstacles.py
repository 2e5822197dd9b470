"""The reasons why entries of one site are not applied at another, in words from the status of both."""

from typing import TYPE_CHECKING

from discovery.receive_status import ReceiveQueueStatus
from discovery.status import read_status
from queues.states import SessionState

if TYPE_CHECKING:
    from lrq.testing.local_site import LocalSite


def of_all(source: "LocalSite") -> list[str]:
    """Return the reasons for all other sites of the pair; empty when each has applied all entries it has received."""
    return [reason for sink in source.others for reason in between(source, sink)]


def between(source: "LocalSite", sink: "LocalSite", client: str | None = None) -> list[str]:
    """Return the reasons for one sink, of one client or of all."""
    sessions = [
        f"the session of {each.client} to {sink.site_id} is in {each.state_text}"
        for each in read_status(source.engine).sessions
        if each.destination == sink.site_id
        and client in (None, each.client)
        and each.state not in (SessionState.LOG_ENTRY_SYNC, SessionState.FINISHED)
    ]
    queues = [
        reason
        for queue in read_status(sink.engine).receive_queues
        if queue.source == source.site_id and client in (None, queue.client)
        for reason in _of_queue(sink.site_id, queue)
    ]
    return sessions + queues


def _of_queue(sink: str, queue: ReceiveQueueStatus) -> list[str]:
    if not queue.outstanding and not queue.snapshot_waits:
        return []
    if not queue.subscribed:
        return [f"{sink} has no subscriber of client {queue.client}"]
    if queue.failure is not None:
        return [
            f"the listener of client {queue.client} at {sink} fails, {queue.failure.tries} times: {queue.failure.error}"
        ]
    return [f"the listener of client {queue.client} at {sink} has {queue.outstanding} entries before it"]
