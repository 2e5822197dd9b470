"""Which transactions a tick holds on PostgreSQL: those one snapshot sees and an earlier one does not (DESIGN 2)."""

from typing import Any, Final

from queues.positions import Snapshot

#: Sees no transaction: what the first tick begins from.
NOTHING: Final = Snapshot(1, 1, frozenset())
#: A condition: the transactions of a window.
IN_WINDOW: Final = "(xid BETWEEN %(first)s AND %(last)s OR xid = ANY(%(late)s)) AND xid <> ALL(%(running)s)"


def plan(*avoided: str, lasting: bool = False) -> str:
    """Return what precedes looking for few transactions in a log of any size; *lasting* for a whole connection.

    What the planner guesses without statistics would read all of it, and compile that first. *avoided* are more ways
    that it must not go.
    """
    settings = ("jit", "enable_seqscan", "enable_mergejoin", *avoided)
    return "SELECT " + ", ".join(f"set_config('{name}', 'off', {not lasting})" for name in settings)


def since(lo: Snapshot) -> dict[str, Any]:
    """Return the values of `IN_WINDOW` for what *lo* does not see, and the transaction's own snapshot does."""
    return {"first": lo.xmax, "last": 2**63 - 1, "late": sorted(lo.running), "running": []}


def window(lo: Snapshot, hi: Snapshot) -> dict[str, Any]:
    """Return the values of `IN_WINDOW` for what *hi* sees and *lo*, the older one, does not."""
    return {
        "first": lo.xmax,
        "last": hi.xmax - 1,
        "late": sorted(lo.running - hi.running),
        "running": sorted(hi.running),
    }
