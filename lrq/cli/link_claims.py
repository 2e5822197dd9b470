"""Release the claims of sessions on old entries."""

from collections.abc import Sequence

from sqlalchemy import Engine

from queues.database.transactions import writing
from queues.errors import ConfigurationError
from queues.names import ClientName, SiteId
from queues.send_log import released
from queues.send_log.port import SessionKey
from queues.send_log.sessions import SessionRow, every_session
from queues.states import SessionState


def forget(engine: Engine, destination: SiteId, client: ClientName | None, *, force: bool) -> list[SessionKey]:
    """Release the claims of the sessions to *destination*, of *client* or (None) of all clients; return the sessions.

    Raises `ConfigurationError` if there is no such session. Without *force* the same error tells of an active one.
    """
    with writing(engine) as connection:
        found = [row for row in every_session(connection) if row.destination == destination]
        chosen = [row for row in found if client is None or row.client == client]
        doubt = doubtful(chosen, destination, client, force=force)
        if doubt:
            raise ConfigurationError(doubt)
        keys = [SessionKey(row.client, row.destination) for row in chosen]
        released.release(connection, keys)
        return keys


def doubtful(rows: Sequence[SessionRow], destination: SiteId, client: ClientName | None, *, force: bool) -> str:
    """Return why the claims of *rows* must not be released; empty if they may. Pure."""
    if not rows:
        return f"there is no session to {destination}" + (f" of client {client}" if client else "")
    active = [row for row in rows if row.state is not SessionState.INACTIVE]
    if not active or force:
        return ""
    first = active[0]
    return (
        f"the session of {first.client} to {destination} is not inactive ({first.state.value}): take the site out of "
        "`peers` and restart the server first, or say --force"
    )
