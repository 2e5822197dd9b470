"""Open a site for a command that only reads: such a command ends if a table stays locked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, event

from lrq.cli.place import OpenSite, engine_of, locate
from queues.database import dialects
from queues.database.migrations import require
from queues.database.transactions import is_lock_timeout
from queues.errors import StoreUnavailableError

#: The longest wait of a reading command for a locked table on PostgreSQL, in seconds.
LOCK_SECONDS: Final = 10
#: A reader waits only for this mode of locks, or behind a session that waits for one.
_FIND: Final = "SELECT pid, relation::regclass FROM pg_locks WHERE mode = 'AccessExclusiveLock'"


@contextmanager
def opened_to_read(config: Path | None, database: str | None, site: str | None) -> Iterator[OpenSite]:
    """Open the site's database like `lrq.cli.place.opened`, with transactions that wait briefly for a locked table.

    The limit ends with each transaction, so a pooler gives none of it to others.
    Raises the errors of `opened`, and `StoreUnavailableError` after `LOCK_SECONDS`, with the way to the other session.
    """
    place = locate(config, database, site)
    with engine_of(place) as engine:
        event.listen(engine, "begin", _limit_wait)
        try:
            yield OpenSite(engine, require(engine, site_id=place.site).site_id, place)
        except StoreUnavailableError as error:
            if not is_lock_timeout(error):
                raise
            raise StoreUnavailableError(
                f"another session has kept a table of lrq locked for {LOCK_SECONDS} s: find its pid with "
                f'"{_FIND}", see it in pg_stat_activity, and end it'
            ) from error


def _limit_wait(connection: Connection) -> None:
    dialects.of(connection).limit_lock_wait(connection, LOCK_SECONDS)
