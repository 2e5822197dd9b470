"""RabbitMQ between an outbox and the destinations: a topic exchange, one durable queue per destination.

Messages are persistent. The relay commits a transaction of the channel per batch; the batch is then on the disk.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
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

#: Debian's own command needs root; the program behind it does not.
PROGRAMS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
_EXCHANGE: Final = "entries"
_PERSISTENT: Final = 2


class RabbitMQ(Brokered):
    """RabbitMQ with consumers that acknowledge a whole batch after its commit."""

    name = "RabbitMQ"

    def _start(self, source: str, sinks: Sequence[str]) -> None:
        port, self._epmd, many = free_port(), str(free_port()), len(sinks)
        environment = _environment(self._folder, port, self._epmd)
        self._run_broker(port, [program()], **environment)
        _make_queues(port, many)
        for number, sink in enumerate(sinks):
            self._workers.start(_deliver, sink, port, f"sink{number}")
        self._workers.start(_relay, source, port, many)

    def close(self) -> None:
        """Stop all processes, Erlang's daemon too."""
        super().close()
        subprocess.run(["epmd", "-port", self._epmd, "-kill"], check=False, capture_output=True)


def program() -> str:
    """Return the program that starts a server; empty if none is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


def _environment(folder: Path, port: int, epmd: str) -> dict[str, str]:
    return os.environ | {
        "HOME": str(folder),
        "ERL_EPMD_PORT": epmd,
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
    }


def _connect(port: int) -> Any:  # noqa: ANN401 - untyped
    import pika

    return pika.BlockingConnection(
        pika.ConnectionParameters(HOST, port, connection_attempts=100, retry_delay=0.2, heartbeat=600)
    )


def _make_queues(port: int, destinations: int) -> None:
    with _connect(port) as connection:
        channel = connection.channel()
        channel.exchange_declare(_EXCHANGE, "topic", durable=True)
        for number in range(destinations):
            channel.queue_declare(f"sink{number}", durable=True)
            channel.queue_bind(f"sink{number}", _EXCHANGE, pattern_of(number, destinations))


def _relay(told: Told, source: str, port: int, destinations: int) -> None:
    import pika

    persistent = pika.BasicProperties(delivery_mode=_PERSISTENT)
    with _connect(port) as connection:
        channel = connection.channel()
        channel.tx_select()

        def publish(messages: list[Message]) -> None:
            for topic, _, body in messages:
                channel.basic_publish(_EXCHANGE, topic, body, persistent)
            channel.tx_commit()

        relay(told, source, destinations, publish)


def _deliver(told: Told, sink: str, port: int, queue: str) -> None:
    bodies: list[bytes] = []
    newest = 0

    def keep(_channel: object, method: Any, _properties: object, body: bytes) -> None:  # noqa: ANN401 - untyped
        nonlocal newest
        newest = method.delivery_tag
        bodies.append(body)

    with _connect(port) as connection, destination(sink) as here:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2 * BATCH)
        channel.basic_consume(queue, keep)
        told.ready()
        while not told.over():
            connection.process_data_events(time_limit=0.2)
            if bodies:
                apply(here, bodies)
                bodies.clear()
                channel.basic_ack(newest, multiple=True)
