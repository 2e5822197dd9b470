"""A cheap generator of requests: one event loop, bytes that are made before, and a window for each stream."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from benchmarks.workload import PAYLOAD_BYTES
from queues.clock import SYSTEM_CLOCK
from queues.produce_envelope import packed, replies_in
from queues.wire import ingest_pb2 as pb

#: The client and the destination of all requests.
CLIENT: Final = "bench"
TO: Final = ("sink",)
METHOD: Final = "/lrq.Ingest/Produce"


@dataclass(frozen=True, slots=True)
class Load:
    """Each of *producers* sends *requests* with one message; *together* of them are one message of the stream.

    At most *window* requests of a producer are without an answer.
    """

    address: str
    method: str
    producers: int
    requests: int
    together: int
    window: int


@dataclass(frozen=True, slots=True)
class Used:
    """The seconds until all requests were answered, and the CPU seconds of the generator meanwhile."""

    seconds: float
    cpu: float


def generate(load: Load) -> Used:
    """Carry out *load*; raise `RuntimeError` if a request is refused or stays without an answer."""
    return asyncio.run(_generate(load))


def generate_together(loads: Sequence[Load]) -> Used:
    """Carry out several loads at the same time, in one process; see `generate`."""

    async def together() -> Used:
        used = await asyncio.gather(*(_generate(load) for load in loads))
        return Used(max(each.seconds for each in used), max(each.cpu for each in used))

    return asyncio.run(together())


async def _generate(load: Load) -> Used:
    messages = [_messages(f"producer{number}", load) for number in range(load.producers)]
    async with grpc.aio.insecure_channel(load.address) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        began, cpu = SYSTEM_CLOCK.monotonic(), time.process_time()
        await asyncio.gather(*(_produce(channel, load, each) for each in messages))
        return Used(SYSTEM_CLOCK.monotonic() - began, time.process_time() - cpu)


def _messages(producer: str, load: Load) -> list[bytes]:
    message = pb.ProducedMessage(payload=random.randbytes(PAYLOAD_BYTES), destinations=TO)
    requests = [
        pb.ProduceRequest(client=CLIENT, producer=producer, sequence=number, messages=[message]).SerializeToString()
        for number in range(1, load.requests + 1)
    ]
    if load.together == 1:
        return requests
    groups = (requests[begin : begin + load.together] for begin in range(0, len(requests), load.together))
    return [message for group in groups for message in packed(group)]


async def _produce(channel: grpc.aio.Channel, load: Load, messages: Sequence[bytes]) -> None:
    opened: Any = channel.stream_stream(load.method)
    call = opened()
    sent, answered, most = 0, 0, max(load.window // load.together, 1)
    while answered < load.requests:
        while sent < len(messages) and sent * load.together - answered <= (most - 1) * load.together:
            await call.write(messages[sent])
            sent += 1
        raw = await call.read()
        if raw is grpc.aio.EOF:
            raise RuntimeError(f"{answered} of {load.requests} requests were answered: {await call.details()}")
        replies = replies_in(pb.ProduceReply.FromString(raw))
        if replies[-1].HasField("refusal"):
            raise RuntimeError(f"a request was refused: {replies[-1].refusal.reason}")
        answered += len(replies)
    await call.done_writing()
    call.cancel()
