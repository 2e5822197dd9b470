"""An application that transmits entries of the client `policy`, and two sessions that are owed some."""

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from queues.database.tables.sessions import sessions
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

client = RoutingQueueSenderClient("policy")
TOKYO = SessionKey(ClientName("policy"), SiteId("tokyo"))
LIMA = SessionKey(ClientName("policy"), SiteId("lima"))


def transmit(engine: Engine, *payloads: bytes, to: tuple[str, ...] = ("tokyo",)) -> str:
    """Commit one transaction with an entry for each payload; return its token."""
    with Session(engine) as session, session.begin():
        for payload in payloads:
            token = client.transmit_log_entry_message(session, payload, to)
    return str(token)


def acknowledge(engine: Engine, destination: str, seq: int) -> None:
    """Let the session with *destination* have acknowledged the log up to *seq*."""
    with engine.begin() as connection:
        connection.execute(sessions.delete().where(sessions.c.destination == destination))
        connection.execute(
            sessions.insert().values(
                client="policy", destination=destination, state="log-entry sync", reason="", branch="b",
                acked_seq=seq, cut="", lost_seq=0, transferred_rows=0, updated_us=0,
            )
        )  # fmt: skip
