"""Tell the sources of a site about ordered replays: a source without entries to send would not hear of one."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from lr_server.present_trouble import PresentTrouble
from queues.clock import Clock
from queues.database.transactions import reading
from queues.logs import logger
from queues.names import ClientName, SiteId
from queues.receive.replays import ReplayOrder, all_waiting, is_any_waiting

#: The time between two looks for orders, in seconds.
LOOK_SECONDS: Final = 2.0

log = logger("lrq.replays")


class ReplayWatch:
    """Looks for orders from `start` to `stop`, and ends the streams of each ordered session once."""

    def __init__(
        self, engine: Engine, end_streams: Callable[[ClientName, SiteId], None], on_ended: OnEnded, clock: Clock
    ) -> None:
        """Call *end_streams* with the client and the source of each order."""
        self._engine = engine
        self._end_streams = end_streams
        self._clock = clock
        self._ended: frozenset[str] = frozenset()
        self._trouble = PresentTrouble(log, "orders of replays cannot be read", "orders of replays are read again")
        self._stopping = threading.Event()
        self._thread = watched("lrq-replays", self._run, on_ended)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for a look that runs, and look no more. May be called twice."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._clock.wait(self._stopping, LOOK_SECONDS):
            try:
                self._look()
                self._trouble.end()
            except Exception as error:  # noqa: BLE001 - the top of the loop: the log tells it, and the thread tries again
                self._trouble.note(error)

    def _look(self) -> None:
        orders = self._orders()
        for order in orders:
            # A source of an earlier version never answers, and must not lose its stream again and again.
            if order.order_id not in self._ended:
                self._end_streams(order.client, order.source)
        self._ended = frozenset(order.order_id for order in orders)

    def _orders(self) -> Sequence[ReplayOrder]:
        # Almost always there is none, and the quick question suffices.
        with reading(self._engine) as connection:
            if not is_any_waiting(connection):
                return ()
        with reading(self._engine) as connection:
            return all_waiting(connection)
