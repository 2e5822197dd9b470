"""Snapshot syncs of a source, from the request to the rows that a server reads; see each module."""

from queues.snapshots.collection import collect_garbage
from queues.snapshots.offering import Provider, provider_gone, provider_seen, providers
from queues.snapshots.requests import (
    cancel,
    expand,
    find,
    listing,
    mark_applied,
    mark_failed,
    needed_base,
    newest,
    newest_of_each,
    of_build,
    request,
)
from queues.snapshots.rows import StoredBlock, read_blocks
from queues.snapshots.states import EVERY_SITE, Snapshot, SnapshotState, cancel_superseded

__all__ = [
    "EVERY_SITE",
    "Provider",
    "Snapshot",
    "SnapshotState",
    "StoredBlock",
    "cancel",
    "cancel_superseded",
    "collect_garbage",
    "expand",
    "find",
    "listing",
    "mark_applied",
    "mark_failed",
    "needed_base",
    "newest",
    "newest_of_each",
    "of_build",
    "provider_gone",
    "provider_seen",
    "providers",
    "read_blocks",
    "request",
]
