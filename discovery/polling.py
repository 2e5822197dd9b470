"""Polling the registry for new receive queues."""

import threading
from collections.abc import Callable

from sqlalchemy import Connection, Engine

from discovery import registry
from discovery.registry import ReceiveQueue
from discovery.threads import OnEnded, ended, watched
from queues.database.transactions import reading
from queues.names import ClientName


class RegistryPoller:
    """Calls *on_found* once for each receive queue of a client, also for queues that are registered later."""

    def __init__(
        self,
        engine: Engine,
        client: ClientName,
        *,
        interval: float,
        on_found: Callable[[ReceiveQueue], None],
        on_error: Callable[[Exception], None],
        on_ended: OnEnded = lambda _error: None,
        on_poll: Callable[[Connection], None] = lambda _connection: None,
    ) -> None:
        """Poll every *interval* seconds; an error goes to *on_error*, and the polling continues.

        *on_ended* is called if the polling itself ends by an error. *on_poll* may read more in each poll.
        """
        self._on_poll = on_poll
        self._engine = engine
        self._client = client
        self._interval = interval
        self._on_found = on_found
        self._on_error = on_error
        self._known: set[int] = set()
        self._stopping = threading.Event()
        # No thread of a pool: after the end of the main thread Python takes no work for pools.
        self._thread = watched(f"lrq-registry-{client}", self._run, on_ended)

    def start(self) -> None:
        """Poll once in the caller's thread, then periodically in another."""
        try:
            self._poll()
        except Exception as error:  # noqa: BLE001 - the next poll tries again
            self._on_error(error)
        self._thread.start()

    def stop(self) -> None:
        """End the polling; no callback runs after the return."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self._poll()
            except Exception as error:  # noqa: BLE001 - as above
                self._on_error(error)
            except BaseException as error:  # noqa: BLE001 - as above
                self._on_error(ended("a look at the registry", error))

    def _poll(self) -> None:
        with reading(self._engine) as connection:
            queues = registry.find(connection, self._client)
            self._on_poll(connection)
        for queue in queues:
            if queue.queue_id not in self._known:
                self._on_found(queue)
                self._known.add(queue.queue_id)
