"""Tell whether the disk of a database is full, also where that disk is one of another machine."""

from typing import Final

from sqlalchemy import Engine, exc

from queues.database import dialects
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from queues.words import cleaned

_FULL: Final = "53100"


def full_disk(engine: Engine) -> str:
    """Return the database's own words if its disk takes nothing more; empty otherwise, and where they are unknown.

    The question changes nothing, and a role that may only read can ask. SQLite gives no answer.
    """
    try:
        with reading(engine) as connection:
            dialects.of(connection).write_aside(connection)
    except StoreUnavailableError as error:
        cause = error.__cause__
        if isinstance(cause, exc.DBAPIError) and getattr(cause.orig, "sqlstate", None) == _FULL:
            return cleaned(str(cause.orig).partition("\n")[0])
    return ""
