"""Tell the sources of a site about ordered replays: a source without entries to send would not hear of one."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from lr_server.source.job_troubles import JobTroubles
from queues.database.transactions import reading
from queues.names import ClientName, SiteId
from queues.receive.replays import all_waiting

#: The time between two looks for orders, in seconds.
LOOK_SECONDS: Final = 1.0
_JOB: Final = "replays"


class ReplayWatch:
    """Looks for orders from `start` to `stop`, and ends the streams of each ordered session once."""

    def __init__(self, engine: Engine, end_streams: Callable[[ClientName, SiteId], None], on_ended: OnEnded) -> None:
        """Call *end_streams* with the client and the source of each order."""
        self._engine = engine
        self._end_streams = end_streams
        self._ended: frozenset[str] = frozenset()
        self._troubles = JobTroubles()
        self._jobs = Jobs(max_threads=1, thread_names="lrq-replays", on_ended=on_ended)

    def start(self) -> None:
        """Start to look."""
        self._jobs.add_periodic(_JOB, LOOK_SECONDS, self.look, self._troubles.note)
        self._jobs.start()

    def stop(self) -> None:
        """Wait for a look that runs, and look no more. May be called twice."""
        self._jobs.stop()

    def look(self) -> None:
        """End the streams of the orders that are new since the last look."""
        with reading(self._engine) as connection:
            orders = all_waiting(connection)
        for order in orders:
            # A source of an earlier version never answers, and must not lose its stream again and again.
            if order.order_id not in self._ended:
                self._end_streams(order.client, order.source)
        self._ended = frozenset(order.order_id for order in orders)
        self._troubles.end(_JOB)
