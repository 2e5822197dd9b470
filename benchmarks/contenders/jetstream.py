"""NATS JetStream between an outbox and the destinations: a stream in files, one durable pull consumer each.

By default JetStream confirms an entry after the write to a file, and syncs the file every two minutes. A crash of the
machine may lose entries that the relay has already deleted. With `sync_interval: always` each write waits for the disk.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.contenders.brokered import (
    BATCH,
    HOST,
    Brokered,
    Message,
    apply,
    destination,
    free_port,
    pattern_of,
    relay,
)
from benchmarks.contenders.workers import Told

PROGRAM: Final = "nats-server"
_STREAM: Final = "entries"
#: Seconds that a fetch waits before the worker checks for the end of the run.
_WAIT: Final = 0.2


class JetStream(Brokered):
    """Publishes a batch without waiting for each confirmation; the last one confirms all."""

    name = "NATS JetStream (no sync)"
    #: The time between two syncs, as the server's own settings name it.
    sync_interval = "2m"

    def _start(self, source: str, sinks: Sequence[str]) -> None:
        port, many = free_port(), len(sinks)
        settings = self._folder / "settings"
        settings.write_text(settings_of(port, self._folder / "store", self.sync_interval), encoding="utf-8")
        self._run_broker(port, [program(), "-c", str(settings)])
        address = f"nats://{HOST}:{port}"
        asyncio.run(_make_stream(address, many))
        for number, sink in enumerate(sinks):
            self._workers.start(_deliver, sink, address, pattern_of(number, many), f"sink{number}")
        self._workers.start(_relay, source, address, many)


class JetStreamSynced(JetStream):
    """Confirms an entry once it is on the disk, as RabbitMQ and the databases do."""

    name = "NATS JetStream (synced)"
    sync_interval = "always"


def settings_of(port: int, store: Path, sync_interval: str) -> str:
    """Return the server's settings; `always` needs version 2.10 or later."""
    return f'host: "{HOST}"\nport: {port}\njetstream {{ store_dir: "{store}", sync_interval: "{sync_interval}" }}\n'


def program() -> str:
    """Return the server's program, first the one beside this interpreter; empty if none is installed."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(PROGRAM, path=os.pathsep.join(folders)) or ""


async def _make_stream(address: str, destinations: int) -> None:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType

    connection = await nats.connect(address)
    stream = connection.jetstream()
    await stream.add_stream(
        name=_STREAM, subjects=[f"{_STREAM}.>"], storage=StorageType.FILE, retention=RetentionPolicy.INTEREST
    )
    for number in range(destinations):
        wanted = f"{_STREAM}.{pattern_of(number, destinations)}"
        consumer = ConsumerConfig(
            durable_name=f"sink{number}", filter_subject=wanted, ack_policy=AckPolicy.ALL, max_ack_pending=4 * BATCH
        )
        await stream.add_consumer(_STREAM, consumer)
    await connection.close()


def _relay(told: Told, source: str, address: str, destinations: int) -> None:
    import nats

    with asyncio.Runner() as runner:
        connection = runner.run(nats.connect(address))
        stream = connection.jetstream(publish_async_max_pending=BATCH)
        relay(told, source, destinations, lambda messages: runner.run(_publish(stream, messages)))
        runner.run(connection.close())


async def _publish(stream: Any, messages: list[Message]) -> None:  # noqa: ANN401 - untyped
    sent = [
        await stream.publish_async(f"{_STREAM}.{topic}", body, headers={"Nats-Msg-Id": str(number)})
        for topic, number, body in messages
    ]
    await asyncio.gather(*sent)


def _deliver(told: Told, sink: str, address: str, pattern: str, name: str) -> None:
    asyncio.run(_deliver_all(told, sink, address, f"{_STREAM}.{pattern}", name))


async def _deliver_all(told: Told, sink: str, address: str, wanted: str, name: str) -> None:
    import nats

    connection = await nats.connect(address)
    consumer = await connection.jetstream().pull_subscribe(wanted, durable=name, stream=_STREAM)
    with destination(sink) as here:
        told.ready()
        while not told.over():
            messages: list[Any] = []
            # An empty fetch gives an empty list or this error.
            with suppress(TimeoutError):
                messages = await consumer.fetch(BATCH, timeout=_WAIT)
            if messages:
                apply(here, [message.data for message in messages])
                await messages[-1].ack()
    await connection.close()
