"""More sessions than a sink serves: each one beyond is told, and the others go on."""

import threading
from contextlib import closing

from queues.states import SessionState
from tests.sink.silent import SilentCalls
from tests.system.world import World, in_log_sync
from tests.waiting import eventually


def test_sessions_beyond_the_rooms_of_a_sink_are_told_and_the_others_go_on(world: World) -> None:
    tokyo = world.server("tokyo", max_streams=4, max_streams_per_caller=3)
    paris = world.server("paris", listen=[], peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    for number in range(5):
        world.transmit("paris", b"1", to=["tokyo"], client=f"client{number}")

    def served() -> set[str]:
        """Return the clients whose sessions are served, once one status tells both kinds; empty before."""
        sessions = paris.status()["sessions"]
        refused = [each for each in sessions if each["state"] == SessionState.BACKING_OFF]
        told = all("raise max_streams_per_caller there" in each["reason"] for each in refused)
        working = {each["client"] for each in sessions if each["state"] == SessionState.LOG_ENTRY_SYNC}
        return working if told and (len(refused), len(working)) == (2, 3) else set()

    def received() -> dict[str, int]:
        return {each["client"]: each["received_total"] for each in tokyo.status()["receive_queues"]}

    clients = eventually(served)
    for client in clients:
        world.transmit("paris", b"2", to=["tokyo"], client=client)
    eventually(lambda: received() == dict.fromkeys(clients, 2))


def test_an_idle_session_keeps_its_stream_when_silent_ones_are_ended(world: World) -> None:
    tokyo = world.server("tokyo", first_frame_seconds=3.0)
    world.begun("paris", "tokyo")
    paris = world.server(
        "paris", listen=[], peers={"tokyo": tokyo.endpoints[0]}, clients=["policy"], initial_sync="log"
    )
    in_log_sync(paris, "tokyo")

    def streams() -> list[int | None]:
        return [thread.ident for thread in threading.enumerate() if thread.name == "lrq-stream-policy-tokyo"]

    before = eventually(lambda: found if len(found := streams()) == 1 else [])
    with closing(SilentCalls(tokyo.endpoints[0], "Replicate", 1)) as silent:
        eventually(lambda: silent.calls[0].done())
    assert streams() == before
