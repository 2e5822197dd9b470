"""Compare two histories by the rules of Couchbase's DCP (its `rollback.md`). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lr_server.protocol.histories import Branch
from queues.errors import InvalidPositionError


@dataclass(frozen=True, slots=True)
class DcpResume:
    """The consumer's history is a part of the producer's history."""


@dataclass(frozen=True, slots=True)
class DcpRollback:
    """The consumer must go back to `seq` or below, and ask again; 0 means that it can keep nothing."""

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
) -> DcpResume | DcpRollback:
    """Compare two histories by their branches alone, as Couchbase's DCP does.

    A consumer at 0 that names a branch must be in the producer's history too. A DCP snapshot is a tick here. Raises
    `InvalidPositionError` unless `snap_start <= start <= snap_end`.

    Args:
        start: The consumer has everything up to here.
        snap_start: The beginning of the tick around `start`.
        snap_end: The end of that tick.
        branch: The branch that the consumer follows, "" for none.
        failover_log: The producer's branches, oldest first.
        high_seq: The producer's newest sequence number.
        purge_seq: The producer has purged everything up to here.
    """
    if not snap_start <= start <= snap_end:
        raise InvalidPositionError(f"{start} is not between {snap_start} and {snap_end}")
    if start == 0 and not branch:
        return DcpResume()
    if start == snap_end:  # the consumer has the whole tick
        snap_start = start
    elif start == snap_start:  # the consumer has nothing of the tick
        snap_end = start
    if start > 0 and snap_start < purge_seq:
        return DcpRollback(0)
    upper = _upper(branch, failover_log, high_seq)
    if upper is None:
        return DcpRollback(0)
    return DcpResume() if snap_end <= upper else DcpRollback(min(upper, snap_start))


def _upper(branch: str, failover_log: Sequence[Branch], high_seq: int) -> int | None:
    """Return the end of *branch*; None when the branch is not in *failover_log*."""
    ends = [later.start_seq for later in failover_log[1:]] + [high_seq]
    return next((end for known, end in zip(failover_log, ends, strict=True) if known.branch == branch), None)
