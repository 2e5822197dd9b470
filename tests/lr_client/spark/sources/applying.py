"""An application that applies a stream to a table of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Engine, Integer, LargeBinary, MetaData, Table, Text, insert, select

from lr_client.spark import exactly_once
from queues.database.transactions import reading

#: The applied entries and callbacks, in their order.
streamed = Table(
    "streamed",
    MetaData(),
    Column("n", Integer, primary_key=True),
    Column("source", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)


def apply(connection: Connection, entries: Sequence[Any]) -> None:
    connection.execute(insert(streamed), [{"source": row.source, "payload": bytes(row.payload)} for row in entries])


def note(what: str) -> Callable[[Connection, str], None]:
    def write(connection: Connection, source: str) -> None:
        connection.execute(insert(streamed).values(source=source, payload=f"<{what}>".encode()))

    return write


def noting(url: str) -> Callable[[Any, int], None]:
    """Return a `foreachBatch` function that writes entries and callbacks into `streamed`."""
    return exactly_once("test", url, apply, on_snapshot_start=note("start"), on_snapshot_complete=note("complete"))


def told(engine: Engine) -> list[str]:
    """Return the applied entries as text, callbacks in brackets."""
    with reading(engine) as connection:
        return [row.payload.decode() for row in connection.execute(select(streamed).order_by(streamed.c.n))]
