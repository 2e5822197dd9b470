"""Everything that is compared, and what cannot be here."""

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.contenders.logical import LogicalReplication
from benchmarks.contenders.lrq_sites import LrqOnPostgreSQL, LrqOnSQLite

Make = Callable[[], Contender]


def contenders(bench: Bench) -> list[Make]:
    """Return what can run here; note the others as missing."""
    return [LrqOnPostgreSQL, LrqOnSQLite, LogicalReplication]
