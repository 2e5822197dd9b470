"""The frames of a broken stream end at once, and not with its error: late, and in any thread."""

import gc
import threading
from collections.abc import Iterator

import pytest

from queues.errors import LrqError
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, serve
from sink.transport.endpoints import network_endpoint
from tests.waiting import eventually


class Taking:
    """A sink that acknowledges each frame."""

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        raise NotImplementedError

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for _ in frames:
            yield pb.Ack()

    def close(self) -> None:
        """Keep no connection."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("breaks", ["here", "there"])
def test_the_frames_of_a_broken_stream_end_while_its_error_is_kept(breaks: str, uncollected: None) -> None:
    begun, ended, broken = threading.Event(), threading.Event(), threading.Event()
    kept: list[LrqError] = []

    def frames() -> Iterator[pb.Frame]:
        try:
            while True:
                yield pb.Frame(batch=pb.Batch())
                # The transport asks for the next frame while the stream breaks.
                broken.wait()
        finally:
            ended.set()

    def stream() -> None:
        try:
            for _ in sink.replicate(frames()):
                begun.set()
        except LrqError as error:
            kept.append(error)

    with serve(Taking(), ["tcp://127.0.0.1:0"]) as service:
        sink = RemoteSink(network_endpoint(service.endpoints[0]))
        thread = threading.Thread(target=stream, daemon=True)
        thread.start()
        eventually(begun.is_set)
        if breaks == "here":
            sink.close()
        else:
            service.stop()
        eventually(lambda: not thread.is_alive())
        broken.set()
        eventually(ended.is_set)
        assert kept
        sink.close()
