"""Three NATS servers that keep one stream: each message is on two disks before its confirmation.

With `sync_interval: always` each write waits for the disk, as the members of a ring do.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.contenders.brokered import HOST, free_port
from benchmarks.contenders.jetstream import program
from queues.clock import SYSTEM_CLOCK

_STREAM: Final = "entries"
_MEMBERS: Final = 3
#: The seconds until the three servers have chosen a leader, at most.
_PATIENCE: Final = 30.0


@contextmanager
def replicated(folder: Path) -> Iterator[str]:
    """Run the three servers during the block; give the address of the stream's leader."""
    clients, routes = ([free_port() for _ in range(_MEMBERS)] for _ in range(2))
    listed = ", ".join(f'"nats://{HOST}:{port}"' for port in routes)
    with ExitStack() as stack:
        for number in range(_MEMBERS):
            settings = folder / f"nats{number}"
            settings.write_text(
                f'server_name: "n{number}"\nhost: "{HOST}"\nport: {clients[number]}\n'
                f'jetstream {{ store_dir: "{folder / f"store{number}"}", sync_interval: "always" }}\n'
                f'cluster {{ name: "ring", listen: "{HOST}:{routes[number]}", routes: [{listed}] }}\n',
                encoding="utf-8",
            )
            quiet = subprocess.DEVNULL
            process = subprocess.Popen([program(), "-c", str(settings)], stdout=quiet, stderr=quiet)
            stack.callback(_end, process)
        leader = asyncio.run(_make_stream([f"nats://{HOST}:{port}" for port in clients]))
        yield f"nats://{HOST}:{clients[leader]}"


def publish(address: str, producers: int, each: int, window: int, payload: bytes) -> float:
    """Publish *each* messages of every producer, at most *window* at a time; return the seconds."""
    return asyncio.run(_publish(address, producers, each, window, payload))


async def _make_stream(addresses: list[str]) -> int:
    """Make the stream, and return the number of the server that leads it."""
    import nats
    from nats.js.api import StorageType

    until = SYSTEM_CLOCK.monotonic() + _PATIENCE
    while True:
        try:
            connection = await nats.connect(addresses[0], connect_timeout=2)
            stream = connection.jetstream()
            made = await stream.add_stream(
                name=_STREAM, subjects=[f"{_STREAM}.>"], storage=StorageType.FILE, num_replicas=_MEMBERS
            )
            await connection.close()
        except Exception:
            # The servers have not chosen a leader yet.
            if SYSTEM_CLOCK.monotonic() > until:
                raise
            await asyncio.sleep(0.5)
        else:
            leader = made.cluster.leader if made.cluster else "n0"
            return int(str(leader).removeprefix("n"))


async def _publish(address: str, producers: int, each: int, window: int, payload: bytes) -> float:
    import nats

    connections = [await nats.connect(address) for _ in range(producers)]
    began = SYSTEM_CLOCK.monotonic()
    await asyncio.gather(*(_produce(one, number, each, window, payload) for number, one in enumerate(connections)))
    seconds = SYSTEM_CLOCK.monotonic() - began
    for one in connections:
        await one.close()
    return seconds


async def _produce(connection: Any, number: int, each: int, window: int, payload: bytes) -> None:  # noqa: ANN401 - untyped
    stream = connection.jetstream(publish_async_max_pending=window)
    sent = [
        await stream.publish_async(f"{_STREAM}.p{number}", payload, headers={"Nats-Msg-Id": f"{number}-{count}"})
        for count in range(each)
    ]
    await asyncio.gather(*sent)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
