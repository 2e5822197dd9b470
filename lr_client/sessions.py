"""The connection behind what an application passes as its session."""

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queues.errors import UsageError


def connection_of(session: Session | Connection) -> Connection:
    """Return the connection of *session*, in its transaction; raise `UsageError` for an asynchronous one."""
    if hasattr(session, "run_sync"):
        raise UsageError(
            "this session is asynchronous: pass the method and what it takes to `await session.run_sync(...)`"
        )
    return session.connection() if isinstance(session, Session) else session
