"""The rate of a listener with one shard and with several, on PostgreSQL: `python -m benchmarks.shards`.

A slow listener takes 5 ms for each entry, as a call of another system would. A quick one takes none, so that only the
meetings of shards at barriers count. The entries wait in the receive queue.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.orm import Session

import queues
from benchmarks.cluster import pause, until
from benchmarks.snapshot.postgres import Server, postgres
from lr_client import RoutingQueueListener, subscribe
from queues.blocks import EntryRow, encode_entries
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive import writer_marks
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState, stored_size
from queues.receive.queue_marks import applied_marks
from queues.receive.writer_marks import LockedMarks, Stored
from queues.shard_maps import new_map
from queues.wire.entry_pb2 import RoutingTableEntryMsg

CLIENT: Final = ClientName("policy")
SOURCE: Final = SiteId("paris")
_SECONDS: Final = 0.005
_BLOCK: Final = 100
_KEYS: Final = 512
#: The share of the entries whose keys belong to shard 0 by an even map, if the load is skewed.
_SKEW: Final = 0.6


class Takes(RoutingQueueListener):
    """Takes some seconds for each entry."""

    client_name = CLIENT

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Take no snapshot."""
        raise NotImplementedError

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Wait."""
        del session, source_id
        if self._seconds:
            pause(self._seconds * len(entries))
        return True


@dataclass(frozen=True, slots=True)
class Setting:
    """One measurement; *barriers* is the share of the entries that have no key."""

    name: str
    shards: int
    partitioner: str
    skewed: bool
    entries: int
    seconds: float = _SECONDS
    barriers: float = 0.0
    batch: int = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds until everything was applied."""

    setting: Setting
    seconds: float

    @property
    def rate(self) -> float:
        """Entries applied in a second."""
        return self.setting.entries / self.seconds


def keys(entries: int, *, skewed: bool) -> list[str]:
    """Return the partition key of each entry, the same ones in every run."""
    chance, even = random.Random(1), new_map(1, 4, "hash")
    of_shards: list[list[str]] = [[], [], [], []]
    for number in range(_KEYS):
        of_shards[even.owners[even.slot(f"key{number}")]].append(f"key{number}")
    # An even load has as many entries for each shard, in random order.
    shards = [0 if skewed and chance.random() < _SKEW else number % 4 for number in range(entries)]
    chance.shuffle(shards)
    return [chance.choice(of_shards[shard]) for shard in shards]


def with_barriers(chosen: Sequence[str], share: float) -> list[str | None]:
    """Take the key from that share of the entries, the same ones in every run."""
    chance = random.Random(2)
    return [None if chance.random() < share else key for key in chosen]


def fill(engine: Engine, chosen: Sequence[str | None]) -> None:
    """Store one source transaction for each key in the receive queue."""
    new = NewBlocks([], [], [], [], [], [])
    for first in range(0, len(chosen), _BLOCK):
        rows = [
            EntryRow(b"x" * 200, index, 1, partition_key=key)
            for index, key in enumerate(chosen[first : first + _BLOCK])
        ]
        block = encode_entries(rows)
        new.end_seq.append(first + len(rows))
        new.row_count.append(len(rows))
        new.start_seq.append(first)
        new.tick_seq.append(first)
        new.size.append(stored_size(block.plain_size, len(rows)))
        new.block.append(block.SerializeToString())
    state = ReceiveState(received=Position("branch", len(chosen)), boundary_seq=len(chosen), bytes_total=sum(new.size))
    with writing(engine) as connection:
        queue_id = writer_marks.register(connection, CLIENT, SOURCE, 0)
        marks = LockedMarks(Stored(queue_id, 0, ReceiveState(), 0, undoes=False))
        marks.save(connection, state, 0, new=new)


def applied(engine: Engine) -> int:
    """Return the number up to which everything is applied."""
    with reading(engine) as connection:
        found = applied_marks(connection, CLIENT, SOURCE)
    return 0 if found is None else found.applied_seq


def measure(server: Server, number: int, setting: Setting) -> Measured:
    """Apply everything once, in a database of its own."""
    engine = server.create(f"sink{number}")
    queues.initialize(engine, site_id="lima")
    fill(engine, with_barriers(keys(setting.entries, skewed=setting.skewed), setting.barriers))
    began = SYSTEM_CLOCK.monotonic()
    options = {"shards": setting.shards, "partitioner": setting.partitioner, "max_batch_entries": setting.batch}
    with subscribe(engine, Takes(setting.seconds), **options):  # type: ignore[arg-type]
        until(lambda: applied(engine) == setting.entries, 600)
        took = SYSTEM_CLOCK.monotonic() - began
    engine.dispose()
    return Measured(setting, took)


def settings(entries: int) -> list[Setting]:
    """Return all measurements."""
    return [
        Setting("one shard", 1, "hash", False, entries),
        Setting("four shards", 4, "hash", False, entries),
        Setting("four shards, even, long", 4, "adaptive", False, 2 * entries),
        Setting("four shards, skewed, hash", 4, "hash", True, 2 * entries),
        Setting("four shards, skewed, adaptive", 4, "adaptive", True, 2 * entries),
        *(
            Setting(f"{words}, quick, {share:.0%} barriers", shards, "hash", False, 4 * entries, 0.0, share, 1_000)
            for share in (0.0, 0.02, 0.1, 0.4)
            for words, shards in (("one shard", 1), ("four shards", 4))
        ),
    ]


def main() -> None:
    """Measure listeners with one shard and with several."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=main.__doc__)
    parser.add_argument("--entries", type=int, default=4_800, help="entries of the short measurements")
    parser.add_argument("--folder", help="folder of the database; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    chosen = parser.parse_args()
    with postgres(chosen.folder) as server:
        found = [measure(server, number, setting) for number, setting in enumerate(settings(chosen.entries))]
    if chosen.json:
        json.dump([{**asdict(each), "rate": each.rate} for each in found], sys.stdout)
        return
    for each in found:
        sys.stdout.write(f"{each.setting.name:36} {each.seconds:7.1f} s {each.rate:7.0f} entries/s\n")
    one, four, even, _, adaptive = (each.rate for each in found[:5])
    sys.stdout.write(
        f"four shards: {four / one:.2f} of one; skewed, adaptive: {even / adaptive:.2f} times the even time\n"
    )


if __name__ == "__main__":
    main()
