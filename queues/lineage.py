"""The branches of a source, and whether a later branch has inherited a transaction of an earlier one. Pure.

See docs/design.md, "Positions and tokens".
"""

from collections.abc import Iterable, Sequence
from itertools import dropwhile
from typing import Final, NamedTuple

from queues.positions import PgSnapshot, Position

#: The most branches that a source tells a sink, the newest ones.
TOLD_BRANCHES: Final = 16
#: The most transactions that `inheritance` names one by one.
NAMED_TRANSACTIONS: Final = 1_000


class BranchOrigin(NamedTuple):
    """A branch, the PostgreSQL timeline that wrote it, and the transactions of earlier branches that it inherited.

    `timeline` is empty without timelines. `inherited` is the text of a `PgSnapshot`, empty if unknown.
    """

    branch: str
    timeline: str = ""
    inherited: str = ""


class Trace(NamedTuple):
    """The branches whose ticks may cover a transaction; `is_lost`: the newest history does not contain it."""

    holders: tuple[str, ...]
    is_lost: bool


def trace(branches: Sequence[BranchOrigin], branch: str, timeline: str, transaction: int) -> Trace:
    """Find a transaction that was written while *branch* was current, on *timeline* (empty: that of the branch).

    *branches* are in order, oldest first. Without knowledge of the branch, only its own ticks count.
    """
    later = list(dropwhile(lambda known: known.branch != branch, branches))
    if not later:
        return Trace(() if timeline else (branch,), is_lost=False)
    wanted = timeline or later[0].timeline
    home = next((index for index, known in enumerate(later) if known.timeline == wanted), None)
    if home is None:
        # Either no server has adopted the timeline yet, or another promotion has followed before that.
        return Trace((), is_lost=len(later) > 1)
    holders = [later[home].branch]
    for heir in later[home + 1 :]:
        if not heir.inherited:
            break
        if not PgSnapshot.parse(heir.inherited).sees(transaction):
            return Trace((), is_lost=True)
        holders.append(heir.branch)
    return Trace(tuple(holders), is_lost=False)


def keeps(starts: Sequence[tuple[str, int]], position: Position) -> bool:
    """Return whether the newest history contains *position*; *starts* are all branches and the numbers before them.

    A later branch that begins before the position has lost the entries between.
    """
    later = list(dropwhile(lambda start: start[0] != position.branch, starts))
    return bool(later) and all(begin >= position.seq for _, begin in later[1:])


def inheritance(last: PgSnapshot, survivors: Iterable[int], limit: int = NAMED_TRANSACTIONS) -> PgSnapshot:
    """Return the transactions that a promoted database kept: those that *last* sees, and *survivors*, in order.

    At most *limit* missing transactions are named. Survivors beyond them do not count as kept.
    """
    missing, end = set(last.running), last.xmax
    for transaction in survivors:
        if transaction < last.xmax:
            missing.discard(transaction)
        elif len(missing) + transaction - end > limit:
            break
        else:
            missing.update(range(end, transaction))
            end = transaction + 1
    return PgSnapshot(min(missing, default=end), end, frozenset(missing))


def timeline_of(incarnation: str) -> str:
    """Return the timeline within the identity of a database; empty if the identity has none."""
    parts = incarnation.split("/")
    return parts[1] if len(parts) == 3 and parts[1] != "0" else ""
