"""Frames of a broken stream that a sink stores after the next negotiation are believed, because they were sent."""

from collections.abc import Iterator

from queues.errors import PeerUnreachableError
from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse
from sink.port import Sink
from sink.transport.service import serve
from tests.system.faulty import PassingSink
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually


class LateSink(PassingSink):
    """Once `is_slow`, stores two frames of a stream that breaks only after the answer to the next negotiation."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.is_slow = False
        self._late: list[Frame] = []

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        answer = super().negotiate(request)
        # An earlier version gives its streams no number. A number would have the sink refuse the late frames.
        answer.ClearField("stream")
        if self._late:
            assert not any(ack.HasField("refusal") for ack in super().replicate(iter(self._late)))
            self._late = []
            super().negotiate(request)
        return answer

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return super().replicate(self._held(frames))

    def _held(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if self.is_slow:
                self._late = [frame, next(frames)]
                self.is_slow = False
                raise PeerUnreachableError("the connection was lost")
            yield frame


def test_frames_that_a_sink_stores_late_are_acknowledged(world: World) -> None:
    tokyo = world.behind("tokyo", LateSink)
    heard = world.subscribe("tokyo")
    large = [bytes([number]) * 600_000 for number in (1, 2)]
    # Only on a network several frames are on their way.
    with serve(tokyo, ["tcp://127.0.0.1:0"]) as service:
        paris = world.server(
            "paris", listen=[], peers={"tokyo": service.endpoints[0]}, initial_sync="log", slow_retry_seconds=60,
            max_batch_bytes=1_000_000, tick_rows=1,
        )  # fmt: skip
        world.transmit("paris", b"before", to=["tokyo"])
        in_log_sync(paris, "tokyo")
        eventually(lambda: sessions_of(paris)["tokyo"]["acked_seq"] == 1)
        tokyo.is_slow = True
        for payload in large:
            world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda: sessions_of(paris)["tokyo"]["acked_seq"] == 3)
        in_log_sync(paris, "tokyo")
        eventually(lambda: heard.log("paris") == [b"before", *large])
        paris.stop()
