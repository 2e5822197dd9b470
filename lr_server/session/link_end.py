"""The end of a link, as its session knows it: ordered, taken back or finished."""

from sqlalchemy import Engine

from lr_server.protocol.events import EndOrdered
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.send_log import links
from queues.send_log.port import SessionKey


class LinkEnd:
    """The order to end the link of the session *owed*, and the rows of the link in the database."""

    def __init__(self, engine: Engine, owed: SessionKey) -> None:
        #: The newest order, until the operator takes it back.
        self.ordered: EndOrdered | None = None
        self._engine = engine
        self._owed = owed

    def note(self, end: int, order: int) -> EndOrdered | None:
        """Keep the *order* to end at *end*; return its event the first time."""
        ordered = EndOrdered(end, order)
        if self.ordered == ordered:
            return None
        self.ordered = ordered
        return ordered

    def forget(self) -> bool:
        """Forget the order, and return whether there was one."""
        was_ordered, self.ordered = self.ordered is not None, None
        return was_ordered

    def is_draining(self, order: int) -> bool:
        """Return whether the link still drains by *order*."""
        with reading(self._engine) as connection:
            return links.is_draining(connection, self._owed, order)

    def note_finished(self, order: int) -> None:
        """Store that the sink has the end of the stream, by *order*; no snapshot is sent any more."""
        client, destination = self._owed
        with writing(self._engine) as connection:
            if links.note_finished(connection, self._owed, order):
                # The request came too late for the session, and its rows would stay for ever.
                send_snapshot.cancel(connection, client, destination, reason="the link has ended")
