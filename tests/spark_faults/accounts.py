"""Accounts that deltas are added to: adding is not idempotent, so a delta that is lost or comes twice shows."""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from lr_client import RoutingQueueListener, RoutingQueueSenderClient
from lr_client.spark import SparkSnapshotContext
from queues.clock import SYSTEM_CLOCK
from tests.faults.plan import SINK

metadata = MetaData()
accounts = Table("app_accounts", metadata, Column("item", Integer, primary_key=True), Column("total", Integer))
#: Transactions a second that the source is to get.
RATE = 500
_WRITERS = 2
_AT_ONCE = 10_000


def create(engine: Engine, rows: int) -> None:
    """Make the table with *rows* accounts."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        for start in range(0, rows, _AT_ONCE):
            numbers = range(start, min(rows, start + _AT_ONCE))
            connection.execute(insert(accounts), [{"item": number, "total": number % 7} for number in numbers])


def contents(engine: Engine) -> dict[int, int]:
    """Return every account."""
    with engine.connect() as connection:
        return {row.item: row.total for row in connection.execute(select(accounts))}


def sums(engine: Engine) -> tuple[int, int]:
    """Return how many accounts there are and what they come to."""
    with engine.connect() as connection:
        row = connection.execute(select(func.count(), func.coalesce(func.sum(accounts.c.total), 0))).one()
    return int(row[0]), int(row[1])


def build(_spark: Any, context: SparkSnapshotContext) -> Any:
    """Send every account as `item:total`."""
    table = context.read_table(accounts.name)
    return table.selectExpr("cast(concat(item, ':', total) as binary) payload", "cast(item as string) item_key")


class Load:
    """Transactions that add deltas, at a steady rate."""

    def __init__(self, engine: Engine, rows: int) -> None:
        self._engine = engine
        self._rows = rows
        self._sender = RoutingQueueSenderClient("policy")
        self._over = threading.Event()
        self._began = SYSTEM_CLOCK.monotonic()
        self._written = [0] * _WRITERS
        self.seconds = 0.0

    @property
    def written(self) -> int:
        """How many transactions were committed."""
        return sum(self._written)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the block ends."""
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(_WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
            self.seconds = SYSTEM_CLOCK.monotonic() - self._began

    def _write(self, writer: int) -> None:
        chance = random.Random(writer)
        while not self._over.is_set():
            self._add(chance.randrange(self._rows), chance.randint(1, 9))
            self._written[writer] += 1
            due = self._began + self._written[writer] * _WRITERS / RATE
            SYSTEM_CLOCK.wait(self._over, max(0.0, due - SYSTEM_CLOCK.monotonic()))

    def _add(self, item: int, delta: int) -> None:
        with Session(self._engine) as session, session.begin():
            session.execute(_ADD, {"of": item, "delta": delta})
            self._sender.transmit_log_entry_message(session, b"%d:%d" % (item, delta), [SINK])


class Accounts(RoutingQueueListener):
    """Applies what arrives to the sink's accounts, in the subscriber's transaction."""

    client_name = "policy"

    def __init__(self) -> None:
        self.completed = 0
        self.deltas = 0

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        rows = [entry.opaque_payload.split(b":") for entry in entries]
        session.execute(insert(accounts), [{"item": int(item), "total": int(total)} for item, total in rows])
        return True

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        rows = [entry.opaque_payload.split(b":") for entry in entries]
        session.connection().execute(_ADD, [{"of": int(item), "delta": int(delta)} for item, delta in rows])
        self.deltas += len(rows)
        return True

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        session.execute(delete(accounts))

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
        self.completed += 1


_ADD = update(accounts).where(accounts.c.item == bindparam("of")).values(total=accounts.c.total + bindparam("delta"))
