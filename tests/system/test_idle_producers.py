"""Ten thousand producers that have gone quiet cost a server bounded memory and no thread."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from sqlalchemy import text

from lr_server.ingest.servicer import STREAMS
from queues.produce_envelope import packed, replies_in
from queues.wire import ingest_pb2 as pb
from tests.conftest import NewSite
from tests.system.raw_producer import RawProducer, request
from tests.system.test_ingest_killed import serving
from tests.waiting import eventually

PRODUCERS = 10_000
#: Streams that are open at the same time, each on a connection of its own; the server's limit is 256.
OPEN = 200
#: Threads of a server beside those of the streams.
OTHER_THREADS = 64
#: Bytes that all producers together may cost the server.
ALLOWED = 256 * 1024 * 1024


async def produce(socket: Path, names: list[str], opened: list[None], measured: asyncio.Event) -> bool:
    """Send the first request of each producer; return whether the server has ended the open stream later."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        await channel.channel_ready()
        while True:
            call = channel.stream_stream("/lrq.Ingest/Produce")()
            if await is_answered(call, names):
                break
        opened.append(None)
        await measured.wait()
        return await call.read() is grpc.aio.EOF


async def is_answered(call: Any, names: list[str]) -> bool:
    """Send all requests on one stream; return False if the server has ended it, because the test was slow."""
    try:
        for message in packed(request(1, b"x" * 100, producer=name).SerializeToString() for name in names):
            await call.write(message)
        answered = 0
        while answered < len(names):
            raw = await call.read()
            if raw is grpc.aio.EOF:
                return False
            replies = replies_in(pb.ProduceReply.FromString(raw))
            assert not replies[-1].HasField("refusal"), replies[-1]
            answered += len(replies)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return False
    return True


async def all_producers(socket: Path, server: psutil.Process) -> tuple[int, int]:
    """Return the most threads of the server while streams are open, and the number of streams that it has ended."""
    opened: list[None] = []
    measured = asyncio.Event()
    names = [f"p{number}" for number in range(PRODUCERS)]
    tasks = [asyncio.create_task(produce(socket, names[each::OPEN], opened, measured)) for each in range(OPEN)]
    most = 0
    while len(opened) < OPEN and not any(task.done() for task in tasks):
        most = max(most, server.num_threads())
        await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
    measured.set()
    return most, sum(await asyncio.gather(*tasks))


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_ten_thousand_idle_producers_cost_bounded_memory_and_threads(new_site: NewSite, tmp_path: Path) -> None:
    site, socket = new_site("paris"), tmp_path / "s"
    with serving(site, socket) as process:
        with RawProducer(f"ipc://{socket}") as first:
            eventually(lambda: not first.send([request(0)])[0].HasField("refusal"))
        server = psutil.Process(process.pid)
        before = server.memory_info().rss
        most, ended = asyncio.run(all_producers(socket, server))
        grown = server.memory_info().rss - before
        print(f"{PRODUCERS} producers: {grown / 2**20:.0f} MiB, at most {most} threads, {server.num_threads()} at last")
        assert OPEN <= STREAMS
        assert most <= 3 * OPEN + OTHER_THREADS
        assert ended == OPEN
        assert grown <= ALLOWED
        # The threads of gRPC's pool stay, at most one for each stream that was open at once.
        eventually(lambda: server.num_threads() <= OPEN + OTHER_THREADS)
    with site.begin() as connection:
        known = text("SELECT count(*) FROM lrq_producers WHERE sequence = 1")
        assert connection.execute(known).scalar_one() == PRODUCERS
