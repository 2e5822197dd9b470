"""A sink that answers nonsense ends only its own session, and is not believed."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse, Position, TickHeader
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually


class LyingSink(PassingSink):
    """Changes each answer by *change* once `lies` is set."""

    def __init__(self, sink: Sink, change: Callable[[Ack | NegotiateResponse], None]) -> None:
        super().__init__(sink)
        self._change = change
        self.lies = False

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        answer = super().negotiate(request)
        return self._changed(answer)

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return map(self._changed, super().replicate(frames))

    def _changed(self, answer: Ack | NegotiateResponse) -> Ack | NegotiateResponse:
        if self.lies:
            self._change(answer)
        return answer


def received(answer: Ack | NegotiateResponse, **position: object) -> None:
    answer.received.MergeFrom(Position(**position))


def applied(answer: Ack | NegotiateResponse) -> None:
    answer.applied_seq = answer.received.seq + 1


def header(answer: Ack | NegotiateResponse) -> None:
    if isinstance(answer, NegotiateResponse):
        answer.headers.add().CopyFrom(TickHeader(branch="\0", end_seq=2**64 - 1, uid=2**64 - 1))
    else:
        applied(answer)


LIES = {
    "above": lambda answer: received(answer, seq=answer.received.seq + 1),
    "largest": partial(received, seq=2**64 - 1),
    "NUL": partial(received, branch="\0"),
    "long": partial(received, branch="b" * 100_000),
    "applied": applied,
    "header": header,
}


@pytest.mark.parametrize("lie", LIES)
def test_the_nonsense_of_one_sink_stops_only_its_own_session(world: World, lie: str) -> None:
    rome = world.behind("rome", partial(LyingSink, change=LIES[lie]))
    heard = world.subscribe("tokyo")
    world.server("tokyo", listen=[])
    peers = {site: f"local:{site}" for site in ("rome", "tokyo")}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", slow_retry_seconds=60)
    world.transmit("paris", b"before", to=["rome", "tokyo"])
    in_log_sync(paris, "rome", "tokyo")
    eventually(lambda: {each["acked_seq"] for each in sessions_of(paris).values()} == {1})
    rome.lies = True
    token = world.transmit("paris", b"after", to=["rome", "tokyo"])
    eventually(lambda: sessions_of(paris)["rome"]["state"] == "failed")
    told = sessions_of(paris)["rome"]
    assert told["reason"].startswith("the sink ")
    assert len(told["reason"]) < 1000
    assert (told["acked_seq"], told["branch"]) == (1, sessions_of(paris)["tokyo"]["branch"])
    # The bookkeeping of the healthy site goes on.
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=20)
    later = world.transmit("paris", b"later", to=["tokyo"])
    world.client.wait_replicated(world.site("paris"), later, ["tokyo"], timeout=20)
    eventually(lambda: heard.log("paris") == [b"before", b"after", b"later"])
    assert sessions_of(paris)["tokyo"]["state"] == "log-entry sync"
    assert paris.is_owner
