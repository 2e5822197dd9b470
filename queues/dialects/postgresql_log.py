"""The log-entry queue on PostgreSQL: a tick is the difference of two snapshots, in order of commit (DESIGN 2)."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from weakref import finalize

from sqlalchemy import Connection, Engine

from queues import leases
from queues.dialects import postgresql_reading as reading
from queues.dialects import postgresql_rewriting, postgresql_segments, postgresql_ticks
from queues.dialects.postgresql_closing import TickTaker
from queues.dialects.postgresql_emptying import BusyError
from queues.dialects.postgresql_windows import NOTHING
from queues.errors import StoreUnavailableError
from queues.leases import Lease
from queues.log import sql as sql_log
from queues.log.port import Bounds, Group, Limits, LogRow, Owed, Retention, Trimmed
from queues.positions import Mark, Tick
from queues.transactions import writing

_Done = TypeVar("_Done")


class PostgresqlLog:
    """See `queues.log.port.Log`."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        # What trims and reads relies on statements that see what was committed before each of them, whatever the
        # database's default is.
        engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._engine = engine
        self._ticks = TickTaker(engine, limits)
        finalize(self, self._ticks.close)

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(self, lease: Lease, last: Tick | None) -> Group | None:
        """See the port."""
        return self._ticks.take(lease, last)

    def close(self) -> None:
        """See the port."""
        self._ticks.close()

    def ticks_after(self, seq: int, limits: Limits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: Owed, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            before = sql_log.mark_before(connection, ticks[0]) or Mark(window=NOTHING)
            return reading.read(connection, owed, before, [Mark.parse(tick.mark) for tick in ticks])

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """See the port. Each piece is a read of its own, so a slow sink holds no snapshot."""
        with sql_log.still_kept(self._engine, tick) as connection:
            transaction = reading.transaction(connection, Mark.parse(tick.mark))
        if transaction is None:
            raise StoreUnavailableError(f"the commit of the large transaction of tick {tick.uid} is not in the log")
        after = 0
        while True:
            with sql_log.still_kept(self._engine, tick) as connection:
                piece = reading.read_piece(connection, owed, transaction, after, skip, limits)
            if not piece:
                return
            after, skip = piece[-1].id, 0
            yield piece

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """See the port."""
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            return postgresql_segments.rotate(connection, segment_bytes, segment_seconds)

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """See the port. What somebody still has open is left for the next run."""
        emptied = 0
        laggards: list[Owed] = []
        while (
            lost := self._try(lease, lambda connection: postgresql_segments.trim_one(connection, retention))
        ) is not None:
            emptied += 1
            laggards += lost
        while self._try(lease, postgresql_ticks.empty_one):
            pass
        self._try(lease, postgresql_rewriting.rewrite)
        return Trimmed(self.bounds().trimmed_seq, emptied, tuple(laggards))

    def _try(self, lease: Lease, empty: Callable[[Connection], _Done]) -> _Done | None:
        """Empty one thing in a transaction of its own; None when somebody has it open."""
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return empty(connection)
        except BusyError:
            return None
