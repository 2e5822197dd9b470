"""Which transactions a tick holds on PostgreSQL: those one snapshot sees and an earlier one does not (DESIGN 2)."""

from typing import Any, Final

from queues.positions import Snapshot

#: Sees no transaction: what the first tick begins from.
NOTHING: Final = Snapshot(1, 1, frozenset())
#: A condition: the transactions of a window.
IN_WINDOW: Final = "(xid BETWEEN %(first)s AND %(last)s OR xid = ANY(%(late)s)) AND xid <> ALL(%(running)s)"
#: Begins a transaction that looks for few transactions in a log of any size: what the planner guesses without
#: statistics would read all of it, and compile that first. `avoided` is one more way that it must not go.
PLAN: Final = """
    SELECT pg_current_snapshot()::text, set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
      set_config('enable_mergejoin', 'off', true), set_config('{avoided}', 'off', true)
"""


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
