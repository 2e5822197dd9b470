"""The rules by which Couchbase's DCP compares two histories (its `rollback.md`). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lr_server.histories import Branch
from queues.errors import InvalidPositionError


@dataclass(frozen=True, slots=True)
class DcpResume:
    """The consumer's history is a part of the producer's."""


@dataclass(frozen=True, slots=True)
class DcpRollback:
    """The consumer must go back to `seq` or below, and ask again; 0 means that nothing can be kept."""

    seq: int


def dcp_decide(
    *,
    start: int,
    snap_start: int,
    snap_end: int,
    branch: str,
    failover_log: Sequence[Branch],
    high_seq: int,
    purge_seq: int,
    strict: bool,
) -> DcpResume | DcpRollback:
    """Compare two histories by their branches alone, as Couchbase's DCP does.

    Args:
        start: the consumer has everything up to here.
        snap_start: where the snapshot (here: the tick) that it is in begins.
        snap_end: where that ends. Raises `InvalidPositionError` unless `snap_start <= start <= snap_end`.
        branch: the history that the consumer follows, "" for none.
        failover_log: the producer's branches, oldest first.
        high_seq: the producer's newest sequence number.
        purge_seq: what the producer has purged.
        strict: a consumer with a history must prove it even at 0.
    """
    if not snap_start <= start <= snap_end:
        raise InvalidPositionError(f"{start} is not between {snap_start} and {snap_end}")
    if start == 0 and (not branch or not strict):
        return DcpResume()
    if start == snap_end:  # the whole snapshot is there
        snap_start = start
    elif start == snap_start:  # none of it is
        snap_end = start
    if start > 0 and snap_start < purge_seq:
        return DcpRollback(0)
    upper = _upper(branch, failover_log, high_seq)
    if upper is None:
        return DcpRollback(0)
    return DcpResume() if snap_end <= upper else DcpRollback(min(upper, snap_start))


def _upper(branch: str, failover_log: Sequence[Branch], high_seq: int) -> int | None:
    """Return where *branch* ends; None when it is not in the log."""
    ends = [later.start_seq for later in failover_log[1:]] + [high_seq]
    return next((end for known, end in zip(failover_log, ends, strict=True) if known.branch == branch), None)
