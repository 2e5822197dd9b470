"""A listener receives the source's transactions whole, and none that was rolled back."""

import random

from sqlalchemy.orm import Session

from tests.system.world import World, sessions_of
from tests.waiting import eventually


def test_a_rollback_replicates_nothing_and_a_transaction_arrives_whole(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.link("paris", "tokyo", initial_sync="log")
    send = world.client.transmit_log_entry_message
    with Session(world.site("paris")) as session:
        send(session, b"rolled back", ["tokyo"])
        session.rollback()
        send(session, b"one", ["tokyo"])
        with session.begin_nested() as savepoint:
            send(session, b"savepoint", ["tokyo"])
            savepoint.rollback()
        send(session, b"two", ["tokyo"])
        session.commit()
    eventually(lambda: recorder.calls == [("paris", [b"one", b"two"])])


def test_a_large_transaction_is_delivered_as_soon_as_its_last_part_arrives(world: World, chance: random.Random) -> None:
    recorder = world.subscribe("tokyo")
    # A heartbeat would complete the tick too; none comes within the timeout of this test.
    seldom = {"heartbeat_seconds": 60, "stall_seconds": 120}
    paris = world.link("paris", "tokyo", initial_sync="log", tick_rows=2, max_batch_bytes=300, **seldom)
    sent = [chance.randbytes(200) for _ in range(9)]
    for _ in range(3):
        world.transmit("paris", *sent, to=["tokyo"])
        world.transmit("paris", b"next", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [*sent, b"next"] * 3)
    assert sessions_of(paris)["tokyo"]["state"] == "log-entry sync"


def test_frames_of_compressible_payloads_stay_below_the_limit_of_the_sink(world: World) -> None:
    recorder = world.subscribe("tokyo")
    limits = {"max_payload_bytes": 65536, "max_batch_bytes": 65536, "tick_bytes": 65536}
    tokyo = world.server("tokyo", listen=[], **limits)
    tokyo._writer._limit = 262144
    for number in range(40):
        world.transmit("paris", *[bytes([number]) * 16_000] * 3, to=["tokyo"])
    world.transmit("paris", *[b"x" * 60_000] * 10, to=["tokyo"])
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", **limits)
    eventually(lambda: len(recorder.log("paris")) == 130)
    assert sessions_of(paris)["tokyo"]["state"] == "log-entry sync"


def test_small_ticks_frames_and_calls_never_split_a_transaction(world: World) -> None:
    recorder = world.subscribe("tokyo", max_batch_entries=3)
    world.link("paris", "tokyo", initial_sync="log", tick_rows=2, max_batch_bytes=64, window_frames=2)
    sent = [[f"{number}/{part}".encode() for part in range(1 + 3 * (number % 4))] for number in range(40)]
    for transaction in sent:
        world.transmit("paris", *transaction, to=["tokyo"])
    eventually(lambda: sum(len(payloads) for _, payloads in recorder.calls) == sum(map(len, sent)))
    for _, payloads in recorder.calls:
        taken: list[bytes] = []
        while len(taken) < len(payloads):
            taken += sent.pop(0)
        assert taken == payloads
