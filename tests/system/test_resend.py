"""A range of entries comes to a listener once more, after all others and without a rollback."""

import random
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy.orm import Session

from lr_client import continue_resend, resend_entries
from queues.errors import UsageError
from queues.receive.parked import parked
from tests.resending import interrupted
from tests.system.replaying import Journal, journal, rows, send
from tests.system.world import Messages, World
from tests.waiting import eventually

#: The source keeps acknowledged entries for an hour.
KEPT: dict[str, Any] = {"acknowledged_retention_seconds": 3600.0, "initial_sync": "log"}


def linked(world: World, listener: Journal | None = None, **subscribed: Any) -> None:
    """Send from paris to tokyo within this process, with a listener that journals and cannot undo."""
    journal.metadata.create_all(world.site("tokyo"))
    world.subscribe("tokyo", listener or Journal(), **subscribed)
    world.link("paris", "tokyo", **KEPT)


def texts(world: World) -> list[str]:
    return [text for _, _, text in rows(world.site("tokyo"))]


def all_applied(world: World, count: int) -> None:
    eventually(lambda: len(texts(world)) >= count)


def numbers(world: World) -> dict[str, int]:
    """Return the number with which each text came first."""
    return {text: seq for _, seq, text in reversed(rows(world.site("tokyo")))}


def test_a_range_in_the_middle_comes_once_more_and_nothing_else_does(world: World) -> None:
    linked(world)
    for number in range(5):
        send(world.site("paris"), f"entry {number}")
        eventually(lambda number=number: len(texts(world)) == number + 1)
    seqs = numbers(world)
    resend_entries(world.site("paris"), "policy", "tokyo", start=seqs["entry 1"], end=seqs["entry 2"])
    send(world.site("paris"), "entry 5")
    expected = [f"entry {number}" for number in (0, 1, 2, 3, 4, 1, 2, 5)]
    eventually(lambda: texts(world) == expected)
    applied = [seq for _, seq, _ in rows(world.site("tokyo"))]
    assert applied == sorted(set(applied))


@pytest.mark.parametrize("shards", [1, 3])
def test_entries_of_a_range_keep_their_order_within_each_key(world: World, shards: int) -> None:
    linked(world, shards=shards)
    for number in range(12):
        send(world.site("paris"), f"key {number % 4}, entry {number}", key=f"key {number % 4}")
    eventually(lambda: len(texts(world)) == 12)
    seqs = numbers(world).values()
    resend_entries(world.site("paris"), "policy", "tokyo", start=min(seqs), end=max(seqs))
    eventually(lambda: len(texts(world)) == 24)
    for key in range(4):
        own = [text for text in texts(world) if text.startswith(f"key {key},")]
        assert own == [f"key {key}, entry {number}" for number in range(key, 12, 4)] * 2


def test_a_parked_entry_stays_parked_and_its_new_entry_is_applied(world: World) -> None:
    class Refusing(Journal):
        refuses = True

        def process_updates_in_log_entry_sync(self, session: Any, source_id: str, entries: Any) -> bool:
            if self.refuses and any(entry.opaque_payload == b"entry 1" for entry in entries):
                return False
            return super().process_updates_in_log_entry_sync(session, source_id, entries)

    listener = Refusing()
    linked(world, listener, on_failure="park", max_tries=1, backoff=0.01)
    for number in range(3):
        send(world.site("paris"), f"entry {number}")
        eventually(lambda number=number: len(texts(world)) + len(parked(world.site("tokyo"))) == number + 1)
    listener.refuses = False
    [aside] = parked(world.site("tokyo"))
    resend_entries(world.site("paris"), "policy", "tokyo", start=aside.sequence, end=aside.sequence)
    eventually(lambda: texts(world) == ["entry 0", "entry 2", "entry 1"])
    assert [each.sequence for each in parked(world.site("tokyo"))] == [aside.sequence]


def test_a_range_that_begins_or_ends_around_the_cut_of_a_snapshot_is_refused(world: World) -> None:
    paris, straddling = world.site("paris"), ExitStack()
    journal.metadata.create_all(world.site("tokyo"))
    world.subscribe("tokyo", Journal())
    send(paris, "in the snapshot 1", "in the snapshot 2")
    if paris.dialect.name == "postgresql":
        session = straddling.enter_context(Session(paris))
        straddling.enter_context(session.begin())
        world.client.transmit_log_entry_message(session, b"straddling", ["tokyo"])
    world.provide("paris", Messages(lambda _: [b"state"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: world.execute("paris", "SELECT 1 FROM lrq_snapshots WHERE state = 'ready'") != [])
    straddling.close()
    send(paris, "after 1", "after 2")
    # The first tick has entries from both sides of the cut.
    world.link("paris", "tokyo", **KEPT)
    behind = ["straddling"] * (paris.dialect.name == "postgresql") + ["after 1", "after 2"]
    eventually(lambda: texts(world) == ["state", *behind])
    send(paris, "later")
    eventually(lambda: texts(world)[-1] == "later")
    seqs = numbers(world)
    for start, end in (("after 1", "after 2"), ("after 2", "later"), (behind[0], "later")):
        with pytest.raises(UsageError, match=r"1 to [45] have other numbers at tokyo, because the cut of a snapshot"):
            resend_entries(paris, "policy", "tokyo", start=seqs[start], end=seqs[end])
    resend_entries(paris, "policy", "tokyo", start=seqs["later"], end=seqs["later"])
    eventually(lambda: texts(world) == ["state", *behind, "later", "later"])


@pytest.mark.timeout(180)
def test_after_a_random_history_of_resends_the_listener_has_had_exactly_the_expected_entries(
    world: World, chance: random.Random
) -> None:
    linked(world, max_batch_entries=5)
    expected: list[str] = []
    for number in range(40):
        event = chance.choice(["send", "send", "send", "resend", "interrupted", "restart"])
        print(event, end=" ")
        if event == "send" or not expected:
            made = [f"entry {number}.{place}" for place in range(chance.randint(1, 4))]
            send(world.site("paris"), *made)
            expected += made
        elif event != "restart":
            all_applied(world, len(expected))
            had = [seq for _, seq, _ in rows(world.site("tokyo"))]
            first = chance.randrange(len(had))
            last = chance.randrange(first, min(first + 8, len(had)))
            order: dict[str, Any] = {"start": had[first], "end": had[last]}
            if event == "resend":
                resend_entries(world.site("paris"), "policy", "tokyo", **order)
            else:
                with interrupted(world.site("paris"), chance.choice([1, 2])):
                    resend_entries(world.site("paris"), "policy", "tokyo", **order)
                continue_resend(world.site("paris"), "policy", "tokyo")
            expected += expected[first : last + 1]
        else:
            world.servers[-1].stop()
            world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, **KEPT)
    all_applied(world, len(expected))
    assert texts(world) == expected
