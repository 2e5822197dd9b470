"""Windows on PostgreSQL: the transactions that one snapshot sees and an earlier one does not.

See docs/design.md, "The tick".
"""

from typing import Any, Final

from queues.positions import PgSnapshot

#: The snapshot before the first tick, which sees no transaction.
NOTHING: Final = PgSnapshot(1, 1, frozenset())
#: The condition for ids that this database has not given yet. Rows with such an id were copied from another database.
IS_AHEAD: Final = "xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)"
#: The condition for the transactions of a window.
IN_WINDOW: Final = "(xid BETWEEN %(first)s AND %(last)s OR xid = ANY(%(late)s)) AND xid <> ALL(%(running)s)"


def plan(*avoided: str, lasting: bool = False) -> str:
    """Return the planner's settings for finding few transactions in a log of any size, as one statement.

    Without statistics, the planner would choose to scan the whole log, with JIT compilation. *avoided* names further
    plan types to disable. *lasting* settings hold for the connection, others for the transaction.
    """
    settings = ("jit", "enable_seqscan", "enable_mergejoin", *avoided)
    return "SELECT " + ", ".join(f"set_config('{name}', 'off', {not lasting})" for name in settings)


def since(lo: PgSnapshot) -> dict[str, Any]:
    """Return the values of `IN_WINDOW` for all visible transactions that *lo* does not see."""
    return {"first": lo.xmax, "last": 2**63 - 1, "late": sorted(lo.running), "running": []}


def window(lo: PgSnapshot, hi: PgSnapshot) -> dict[str, Any]:
    """Return the values of `IN_WINDOW` for the transactions that *hi* sees and the older *lo* does not."""
    return {
        "first": lo.xmax,
        "last": hi.xmax - 1,
        "late": sorted(lo.running - hi.running),
        "running": sorted(hi.running),
    }
