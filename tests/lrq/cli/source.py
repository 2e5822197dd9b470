"""A source without a server, where the test takes the ticks and writes the acknowledgements."""

from collections.abc import Sequence

from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from queues.clock import now_us
from queues.database import dialects, leases, migrations
from queues.database.tables.log import log_commits, sqlite_segments
from queues.database.tables.receive import receive_queues
from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks
from queues.database.transactions import reading, writing
from queues.names import receive_queue
from queues.positions import PositionToken
from queues.send_log.port import TickLimits
from tests.queues.reading import Reader


class SourceSite:
    """A source's database, with methods that act for its application and its server."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = engine.url.render_as_string(hide_password=False)
        self._reader: Reader | None = None

    def transmit(
        self, *payloads: bytes, to: Sequence[str], client: str = "policy", item_key: str | None = None
    ) -> PositionToken:
        """Commit one transaction with *payloads*; return the token of its last entry."""
        sender = RoutingQueueSenderClient(client)
        with Session(self.engine) as session, session.begin():
            for payload in payloads:
                token = sender.transmit_log_entry_message(session, payload, to, item_key=item_key)
        return token

    def tick(self, limits: TickLimits | None = None) -> int:
        """Take ticks of all committed entries; return the end of the last tick."""
        lease = leases.acquire(self.engine, "server", "test", ttl=60)
        assert lease is not None
        if self._reader is None:
            self._reader = Reader(self.engine, lease, limits)
        self._reader.lease = lease
        self._reader.drain()
        assert self._reader.last is not None
        return self._reader.last.end_seq

    def session(
        self,
        destination: str,
        acked: int = 0,
        *,
        client: str = "policy",
        state: str = "log-entry sync",
        reason: str = "live",
        applied: int | None = None,
    ) -> None:
        """Write the row of a session as the server would."""
        branch = migrations.require(self.engine).branch
        mine = sessions.c.client == client, sessions.c.destination == destination
        with writing(self.engine) as connection:
            connection.execute(delete(sessions).where(*mine))
            connection.execute(
                insert(sessions).values(
                    client=client, destination=destination, state=state, reason=reason, branch=branch,
                    acked_seq=acked, cut="", lost_seq=0, transferred_rows=0, updated_us=0,
                    applied_seq=applied,
                )
            )  # fmt: skip

    def age(self, seconds: float) -> None:
        """Move the times of all ticks and entries *seconds* into the past."""
        is_sqlite = dialects.of(self.engine) is dialects.SQLITE
        written = [(table, table.c.created_us) for table in sqlite_segments] if is_sqlite else []
        moments = [*written, (ticks, ticks.c.created_us)]
        if not is_sqlite:
            moments.append((log_commits, log_commits.c.committed_us))
        with writing(self.engine) as connection:
            for table, moment in moments:
                connection.execute(update(table).values({moment: now_us() - int(seconds * 1e6)}))

    def receive_queue(self, client: str, source: str) -> str:
        """Return the name of a receive queue; fail if the queue does not exist."""
        with reading(self.engine) as connection:
            name = receive_queue(client, source)  # type: ignore[arg-type]
            assert connection.execute(select(receive_queues).where(receive_queues.c.name == name)).first()
        return name
