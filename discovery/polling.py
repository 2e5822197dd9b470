"""Polling the registry for new receive queues, by APScheduler."""

from collections.abc import Callable
from datetime import UTC

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine

from discovery import registry
from discovery.registry import ReceiveQueue
from queues.logs import errors_only
from queues.names import ClientName
from queues.transactions import reading


class RegistryPoller:
    """Tells of every receive queue of a client once: those that are there at the start, and new ones as they come."""

    def __init__(
        self,
        engine: Engine,
        client: ClientName,
        *,
        interval: float,
        on_found: Callable[[ReceiveQueue], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        """Poll every *interval* seconds; an error is told to *on_error* and does not end the polling."""
        self._engine = engine
        self._client = client
        self._interval = interval
        self._on_found = on_found
        self._on_error = on_error
        self._known: set[int] = set()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1, {"thread_name_prefix": f"lrq-registry-{client}"})},
            job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
            # That a call is left out while the one before goes on is meant.
            logger=errors_only("lrq.scheduler"),
        )

    def start(self) -> None:
        """Look once now, in the caller's thread, and then again and again."""
        self._poll()
        self._scheduler.add_job(self._poll, "interval", seconds=self._interval)
        self._scheduler.start()

    def stop(self) -> None:
        """End the polling; nothing is told any more when this returns."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def _poll(self) -> None:
        try:
            with reading(self._engine) as connection:
                queues = registry.find(connection, self._client)
            for queue in queues:
                if queue.queue_id not in self._known:
                    self._on_found(queue)
                    self._known.add(queue.queue_id)
        except Exception as error:  # noqa: BLE001 - the next poll tries again
            self._on_error(error)
