"""Snapshot syncs of a source, from the request to the rows that a server reads."""

from queues.send_snapshot.blocks import StoredBlock, read_blocks
from queues.send_snapshot.garbage import collect_garbage
from queues.send_snapshot.providers import (
    ABSENCE,
    SILENCE,
    Provider,
    is_provided,
    provider_gone,
    provider_seen,
    providers,
)
from queues.send_snapshot.requests import (
    applied_bases,
    cancel,
    cancel_all,
    cancel_exactly,
    cancel_one,
    expand,
    find,
    forget,
    has_unfinished,
    listing,
    mark_applied,
    newest,
    newest_of_each,
    of_build,
    request,
    unprovided,
    withdraw,
)
from queues.send_snapshot.states import EVERY_SITE, SnapshotSync, cancel_superseded
from queues.states import SnapshotState

__all__ = [
    "ABSENCE",
    "EVERY_SITE",
    "SILENCE",
    "Provider",
    "SnapshotState",
    "SnapshotSync",
    "StoredBlock",
    "applied_bases",
    "cancel",
    "cancel_all",
    "cancel_exactly",
    "cancel_one",
    "cancel_superseded",
    "collect_garbage",
    "expand",
    "find",
    "forget",
    "has_unfinished",
    "is_provided",
    "listing",
    "mark_applied",
    "newest",
    "newest_of_each",
    "of_build",
    "provider_gone",
    "provider_seen",
    "providers",
    "read_blocks",
    "request",
    "unprovided",
    "withdraw",
]
