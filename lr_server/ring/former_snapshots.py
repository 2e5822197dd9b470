"""Requests for snapshots in the file of a member that follows: they come from the time of an earlier lead."""

from typing import Final

from sqlalchemy import Engine

from queues import send_snapshot
from queues.clock import Clock
from queues.database.transactions import reading, writing_briefly
from queues.logs import logger
from queues.words import in_words

log = logger("lrq.server")

#: Seconds between two looks at the requests.
_LOOK: Final = 1.0


class FormerSnapshots:
    """Withdraws the requests in *engine*'s file while another member leads, and deletes their rows.

    The sessions of the leader ask the provider beside the leader. Not for several threads.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._look_from = clock.monotonic()
        self._has_garbage = True
        self._trouble = ""

    def led_here(self) -> None:
        """Note that this member has led: its snapshots may have left rows."""
        self._has_garbage = True

    def turn(self, leader: str) -> None:
        """Do a bounded part of the work, if a look is due; the member at the endpoint *leader* leads."""
        now = self._clock.monotonic()
        if now < self._look_from:
            return
        try:
            self._withdraw(f"another member of the ring leads: ask at {leader}")
            self._has_garbage = self._has_garbage and self._collect()
        except Exception as error:  # noqa: BLE001 - the caller begins the next lead, and tries this again
            self._tell(in_words(error))
            self._look_from = now + _LOOK
            return
        self._trouble = ""
        if not self._has_garbage:
            self._look_from = now + _LOOK

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("requests for snapshots are not withdrawn yet", error=trouble)
        self._trouble = trouble

    def _withdraw(self, reason: str) -> None:
        with reading(self._engine) as connection:
            if not send_snapshot.has_unfinished(connection):
                return
        with writing_briefly(self._engine) as connection:
            count = send_snapshot.cancel_all(connection, reason)
        self._has_garbage = True
        log.info("requests for snapshots are withdrawn", count=count, reason=reason)

    def _collect(self) -> bool:
        """Delete some rows; return whether any were left before."""
        with writing_briefly(self._engine) as connection:
            return send_snapshot.collect_garbage(connection) > 0
