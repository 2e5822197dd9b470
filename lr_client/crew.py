"""Those who work while a subscription owns its client: one looks for queues, and each queue has a follower."""

import threading
from collections.abc import Callable

from sqlalchemy import Engine

from discovery.polling import RegistryPoller
from discovery.registry import ReceiveQueue
from queues.names import ClientName


class Crew:
    """Has every receive queue of a client followed in a thread of its own, so that no source holds up another."""

    def __init__(
        self,
        engine: Engine,
        client: ClientName,
        *,
        poll_interval: float,
        follow: Callable[[ReceiveQueue, threading.Event], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        """Call *follow* in a new thread for each queue; it returns soon after the event is set."""
        self._follow = follow
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._poller = RegistryPoller(engine, client, interval=poll_interval, on_found=self._take_on, on_error=on_error)

    def start(self) -> None:
        """Begin with the queues that there are."""
        self._poller.start()

    def stop(self) -> None:
        """End the work; nobody works any more when this returns."""
        self._stopping.set()
        self._poller.stop()
        for thread in self._threads:
            thread.join()

    def _take_on(self, queue: ReceiveQueue) -> None:
        thread = threading.Thread(
            target=self._follow, args=(queue, self._stopping), name=f"lrq-{queue.name}", daemon=True
        )
        thread.start()
        self._threads.append(thread)
