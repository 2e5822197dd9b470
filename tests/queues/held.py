"""A held snapshot: PostgreSQL keeps old versions of rows as long as the snapshot is open."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text


@contextmanager
def held_snapshot(engine: Engine) -> Iterator[Connection]:
    """Hold a snapshot in a transaction that reads no table of lrq."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as holder:
        holder.execute(text("SELECT pg_current_snapshot()"))
        yield holder
