"""Accounts with deltas: addition is not idempotent, so a lost or doubled delta changes a sum."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

import queues
from lr_client import RoutingQueueListener, RoutingQueueSenderClient
from lr_client.spark import SparkSnapshotContext
from queues.clock import SYSTEM_CLOCK
from tests.faults.plan import SINK
from tests.waiting import eventually

metadata = MetaData()
accounts = Table("app_accounts", metadata, Column("item", Integer, primary_key=True), Column("total", Integer))
#: The source's load, in transactions per second.
RATE = 500
_WRITERS = 2
_SPAWN = get_context("spawn")
_AT_ONCE = 10_000


def create(engine: Engine, rows: int) -> None:
    """Make the table with *rows* accounts."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        for start in range(0, rows, _AT_ONCE):
            numbers = range(start, min(rows, start + _AT_ONCE))
            connection.execute(insert(accounts), [{"item": number, "total": number % 7} for number in numbers])


def contents(engine: Engine) -> dict[int, int]:
    """Return the total of each account."""
    with engine.connect() as connection:
        return {row.item: row.total for row in connection.execute(select(accounts))}


def sums(engine: Engine) -> tuple[int, int]:
    """Return the number of accounts and the sum of their totals."""
    with engine.connect() as connection:
        row = connection.execute(select(func.count(), func.coalesce(func.sum(accounts.c.total), 0))).one()
    return int(row[0]), int(row[1])


def build(_spark: Any, context: SparkSnapshotContext) -> Any:
    """Send every account as `item:total`."""
    table = context.read_table(accounts.name)
    return table.selectExpr("cast(concat(item, ':', total) as binary) payload", "cast(item as string) item_key")


class Load:
    """Transactions that add deltas at a steady rate, from processes of their own, which other work does not delay."""

    def __init__(self, engine: Engine, rows: int) -> None:
        self._url = engine.url.render_as_string(hide_password=False)
        self._rows = rows
        self._over = _SPAWN.Event()
        self._written = [_SPAWN.Value("q", 0) for _ in range(_WRITERS)]
        self.seconds = 0.0
        self.per_second = 0.0

    @property
    def written(self) -> int:
        """Return the number of committed transactions."""
        return sum(written.value for written in self._written)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the end of the block."""
        writers = [
            _SPAWN.Process(target=_write, args=(self._url, self._rows, number, written, self._over), daemon=True)
            for number, written in enumerate(self._written)
        ]
        for writer in writers:
            writer.start()
        try:
            eventually(lambda: all(written.value for written in self._written), timeout=60)
            began, before = SYSTEM_CLOCK.monotonic(), self.written
            yield
            self.seconds = SYSTEM_CLOCK.monotonic() - began
            self.per_second = (self.written - before) / self.seconds
        finally:
            self._over.set()
            for writer in writers:
                writer.join()
        assert [writer.exitcode for writer in writers] == [0] * _WRITERS


def _write(url: str, rows: int, writer: int, written: Any, over: Any) -> None:
    chance, engine, sender = random.Random(writer), queues.create_engine(url), RoutingQueueSenderClient("policy")
    began = SYSTEM_CLOCK.monotonic()
    while not over.is_set():
        item, delta = chance.randrange(rows), chance.randint(1, 9)
        with Session(engine) as session, session.begin():
            session.execute(_ADD, {"of": item, "delta": delta})
            sender.transmit_log_entry_message(session, b"%d:%d" % (item, delta), [SINK])
        written.value += 1
        over.wait(max(0.0, began + written.value * _WRITERS / RATE - SYSTEM_CLOCK.monotonic()))


class Accounts(RoutingQueueListener):
    """Applies arriving entries to the sink's accounts, in the subscriber's transaction."""

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
