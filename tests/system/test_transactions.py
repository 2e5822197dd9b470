"""Transactions of the source, as a listener sees them."""

from sqlalchemy.orm import Session

from tests.system.world import World
from tests.waiting import eventually


def test_what_is_rolled_back_replicates_nothing_and_a_transaction_arrives_whole(world: World) -> None:
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


def test_a_transaction_is_never_split_however_small_the_ticks_frames_and_calls_are(world: World) -> None:
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
