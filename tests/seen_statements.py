"""The statements that a database gets, also those that pass SQLAlchemy by."""

from sqlalchemy import Engine, event


def seen_statements(engine: Engine) -> list[str]:
    """Return a list that grows with each statement; on PostgreSQL only with those of SQLAlchemy."""
    seen: list[str] = []
    if engine.dialect.name == "sqlite":
        event.listen(engine, "checkout", lambda driver, *_others: driver.set_trace_callback(seen.append))
    else:
        event.listen(engine, "before_cursor_execute", lambda *call: seen.append(call[2]))
    return seen
