"""Headers and partition keys of entries arrive at the listener."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.orm import Session

from lr_client import LRMessageWithDestinations
from queues.browse.api import browse
from queues.entry_headers import MAX_BYTES
from queues.receive.parked import parked, retry_parked
from tests.received import COUNT
from tests.system.world import Recorder, World
from tests.waiting import eventually

#: Payload, headers and partition key of an entry.
Told = tuple[bytes, dict[str, str], str | None]

ENTRIES: list[Told] = [
    (b"plain", {}, None),
    (b"with headers", {"content-type": "text/plain", "é": '\u2028 "quoted" \\'}, None),
    (b"with a key", {}, "north"),
    (b"with both", {"n": ""}, "south"),
]


class Listening(Recorder):
    """Records the headers and partition keys of each applied log entry."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Told] = []
        self.obey = self.note

    def note(self, session: Session, source: str, entries: Sequence[Any]) -> bool:
        for entry in entries:
            key = entry.partition_key if entry.HasField("partition_key") else None
            self.told.append((entry.opaque_payload, dict(entry.headers), key))
        return True


def transmit(world: World, entries: Sequence[Told], *, at_once: bool = False) -> None:
    """Transmit *entries* from paris to tokyo, each in a transaction of its own, or all in one call."""
    messages = [
        LRMessageWithDestinations(payload, ["tokyo"], partition_key=key, headers=headers)
        for payload, headers, key in entries
    ]
    for some in [messages] if at_once else [[message] for message in messages]:
        with Session(world.site("paris")) as session, session.begin():
            world.client.transmit_log_entry_messages(session, some)


@pytest.mark.parametrize("tick_rows", [5_000, 3], ids=["usual ticks", "large ticks"])
def test_headers_and_partition_keys_arrive_live_and_in_catch_up(world: World, tick_rows: int) -> None:
    listener = Listening()
    world.subscribe("tokyo", listener)
    transmit(world, ENTRIES)
    transmit(world, ENTRIES, at_once=True)
    tokyo = world.server("tokyo")
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", tick_rows=tick_rows)
    eventually(lambda: listener.told == 2 * ENTRIES)
    transmit(world, ENTRIES)
    transmit(world, ENTRIES, at_once=True)
    eventually(lambda: listener.told == 4 * ENTRIES)


def test_the_largest_headers_arrive_with_the_largest_payload(world: World) -> None:
    listener = Listening()
    world.subscribe("tokyo", listener)
    mib = 1024**2
    limits = {"max_payload_bytes": mib, "max_batch_bytes": mib, "tick_bytes": mib, "max_message_bytes": 3 * mib}
    tokyo = world.server("tokyo", **limits)
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", **limits)
    largest: Told = (b"x" * mib, {"a": "y" * (MAX_BYTES - len('{"a":""}'))}, "k" * 512)
    many = [(b"%d" % number, largest[1], largest[2]) for number in range(300)]
    transmit(world, [largest, *many, largest], at_once=True)
    eventually(lambda: listener.told == [largest, *many, largest])


def test_parked_entries_keep_headers_and_partition_keys_for_their_retry(world: World) -> None:
    listener = Listening()
    listener.obey = lambda _session, _source, entries: False
    world.subscribe("tokyo", listener, on_failure="park", max_tries=1)
    world.link("paris", "tokyo", initial_sync="log")
    transmit(world, ENTRIES, at_once=True)
    eventually(lambda: [each.entries for each in parked(world.site("tokyo"))] == [len(ENTRIES)])
    listener.obey = listener.note
    retry_parked(world.site("tokyo"), parked(world.site("tokyo"))[0].id)
    eventually(lambda: listener.told == ENTRIES)


def test_headers_count_for_the_room_of_a_receive_queue(world: World) -> None:
    world.link("paris", "tokyo", initial_sync="log")
    transmit(world, ENTRIES)
    received = "SELECT bytes_total FROM lrq_receive_marks"
    eventually(lambda: world.execute("tokyo", COUNT) == [(len(ENTRIES),)])
    texts = ['{"content-type":"text/plain","é":"\u2028 \\"quoted\\" \\\\"}', '{"n":""}']
    least = sum(len(payload) + 64 for payload, _, _ in ENTRIES) + sum(len(text.encode()) for text in texts)
    ((size,),) = world.execute("tokyo", "SELECT CAST(sum(size) AS INTEGER) FROM lrq_receive_blocks")
    assert least < size < least + 40 * len(ENTRIES)
    assert world.execute("tokyo", received) == [(size,)]
    shown = browse(world.site("tokyo"), "LRQ_Recv_policy_paris").entries
    keys = [key for _, _, key in ENTRIES]
    assert [(entry.headers, entry.partition_key) for entry in shown] == list(
        zip([None, texts[0], None, texts[1]], keys, strict=True)
    )
    listener = Listening()
    world.subscribe("tokyo", listener)
    eventually(lambda: listener.told == ENTRIES)
    eventually(lambda: world.execute("tokyo", "SELECT applied_bytes FROM lrq_consumers") == [(size,)])
