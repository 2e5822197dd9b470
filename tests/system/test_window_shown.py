"""The used share of a session's window, as the status shows it."""

from tests.system.faulty import StillSink
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually


def test_a_sink_without_answers_fills_the_window_that_the_status_shows(world: World) -> None:
    sink = world.behind("tokyo", StillSink)
    recorder = world.subscribe("tokyo")
    paris = world.server(
        "paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", window_frames=1, stall_seconds=600.0
    )
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    in_log_sync(paris, "tokyo")
    sink.stand_still()
    world.transmit("paris", b"second", to=["tokyo"])
    eventually(lambda: sessions_of(paris)["tokyo"]["window_percent"] == 100)
    sink.go_on()
    eventually(lambda: recorder.log("paris") == [b"first", b"second"])
    eventually(lambda: sessions_of(paris)["tokyo"]["window_percent"] == 0)
