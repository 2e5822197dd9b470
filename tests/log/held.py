"""A snapshot that somebody holds: PostgreSQL keeps old versions of rows for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text


@contextmanager
def held_snapshot(engine: Engine) -> Iterator[Connection]:
    """Hold one, as somebody does who looks at no table of lrq."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as holder:
        holder.execute(text("SELECT pg_current_snapshot()"))
        yield holder
