"""Snapshot providers for tests, and functions that read the snapshots they publish."""

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from sqlalchemy import Engine, func, select, update

from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter
from queues import send_snapshot
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot import claims
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt
from queues.send_snapshot.writer import PartWriter
from queues.wire.replication_pb2 import Block
from tests.waiting import eventually

POLICY = ClientName("policy")
TOKYO = SiteId("tokyo")
LIMA = SiteId("lima")


class Provider:
    """Transmits `payloads(context)`, then completes the snapshot; keeps each context."""

    def __init__(self, payloads: Callable[[SnapshotContext], Iterator[bytes]]) -> None:
        self._payloads = payloads
        self.contexts: list[SnapshotContext] = []
        self.cancelled: list[str] = []

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        self.contexts.append(context)
        for payload in self._payloads(context):
            context.transmit(payload)
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        self.cancelled.append(context.sync_id)


def numbered(count: int, prefix: bytes = b"row ") -> Callable[[SnapshotContext], Iterator[bytes]]:
    return lambda _context: (prefix + str(n).encode() for n in range(count))


def quick(engine: Engine, provider: object, **options: object) -> SnapshotTransmitter:
    """Start a transmitter that polls often and retries at once."""
    defaults: dict[str, object] = {"poll_interval": 0.02, "backoff": lambda _attempt: 0.0}
    return SnapshotTransmitter(engine, POLICY, provider, **{**defaults, **options})  # type: ignore[arg-type]


def request(engine: Engine, *destinations: str, client: str = POLICY) -> list[str]:
    with writing(engine) as connection:
        return send_snapshot.request(connection, ClientName(client), destinations, "a test wants it")


def newest(engine: Engine, destination: str = TOKYO) -> send_snapshot.SnapshotSync:
    with reading(engine) as connection:
        found = send_snapshot.newest(connection, POLICY, SiteId(destination))
    assert found is not None
    return found


def by_id(engine: Engine, sync_id: str) -> send_snapshot.SnapshotSync:
    with reading(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
    assert found is not None
    return found


def ready(engine: Engine, sync_id: str, *, timeout: float = 20.0) -> send_snapshot.SnapshotSync:
    """Wait until the snapshot is published."""
    eventually(lambda: by_id(engine, sync_id).state == "ready", timeout=timeout)
    return by_id(engine, sync_id)


class SnapshotRow(NamedTuple):
    row_no: int
    payload: bytes
    item_key: str | None


def rows_of(engine: Engine, sync_id: str, *, after_row: int = 0, limit_bytes: int = 1 << 20) -> list[SnapshotRow]:
    """Return the rows of a snapshot after *after_row*; each read returns at most *limit_bytes*."""
    rows: list[SnapshotRow] = []
    row = after_row
    while True:
        with reading(engine) as connection:
            blocks = send_snapshot.read_blocks(connection, sync_id, after_row=row, limit_bytes=limit_bytes)
        if not blocks:
            return rows
        for block in blocks:
            assert block.first_row <= row + 1
            rows += map(SnapshotRow, count(block.first_row), *block.unpack())
            row = block.last_row
        del rows[: max(0, after_row + 1 - rows[0].row_no)]


def payloads_of(engine: Engine, sync_id: str) -> list[bytes]:
    return [row.payload for row in rows_of(engine, sync_id)]


def stored(engine: Engine, sync_id: str | None = None) -> int:
    """Count the rows stored in the queue, visible or not."""
    counted = select(func.coalesce(func.sum(snapshot_blocks.c.row_count), 0))
    if sync_id is not None:
        counted = counted.where(snapshot_blocks.c.sync_id == sync_id)
    with reading(engine) as connection:
        return int(connection.execute(counted).scalar_one())


def damage(engine: Engine) -> None:
    """Flip a bit in the rows of each stored block."""
    with writing(engine) as connection:
        for row in connection.execute(select(snapshot_blocks)).all():
            block = Block.FromString(row.block)
            block.body = block.body[:-1] + bytes([block.body[-1] ^ 1])
            own = snapshot_blocks.c.sync_id == row.sync_id, snapshot_blocks.c.part == row.part
            first = update(snapshot_blocks).where(*own, snapshot_blocks.c.last_ord == row.last_ord)
            connection.execute(first.values(block=block.SerializeToString()))


def claim(engine: Engine, owner: str = "me") -> Attempt:
    with writing(engine) as connection:
        (attempt,) = claims.claim(connection, POLICY, owner, limit=1)
    return attempt


def write_part(
    engine: Engine,
    attempt: Attempt,
    part: int,
    payloads: list[bytes],
    *,
    chance: int = 0,
    limits: WriteLimits | None = None,
) -> PartWriter:
    writer = PartWriter(
        engine,
        attempt.sync_id,
        part=part,
        attempt=attempt.part_attempt(chance),
        limits=limits or WriteLimits(),
        in_batch=lambda _connection, _written: None,
        stop=threading.Event(),
    )
    for payload in payloads:
        writer.add(payload, None)
    writer.flush()
    return writer


def end_part(engine: Engine, attempt: Attempt, part: int, payloads: list[bytes], *, chance: int) -> PartWriter:
    """Write a whole part, as a task of a job does, in blocks of two rows."""
    limits = WriteLimits(block_rows=2)
    writer = write_part(engine, attempt, part, payloads, chance=chance, limits=limits)
    writer.finish()
    return writer


BASE = Position("b", 7, "id/9")


def publish(engine: Engine, attempt: Attempt, *writers: PartWriter, base: Position = BASE) -> None:
    with writing(engine) as connection:
        snapshot_attempts.publish(connection, attempt, base=base, parts=[writer.written for writer in writers])
