"""Follow a table: each change of a row becomes an entry, by triggers (docs/sql.md)."""

from collections.abc import Iterable

from sqlalchemy import Connection

from queues import names
from queues.database import dialects
from queues.database.followed_rows import FollowArguments
from queues.destinations import site_ids
from queues.errors import UsageError
from queues.sql_names import table_name

ORIGINS = ("any", "other", "none")


def follow_table(
    connection: Connection,
    table: str,
    *,
    client: str,
    destinations: Iterable[str] = (),
    destinations_column: str | None = None,
    origin: str = "any",
) -> None:
    """Let *client* send each changed row of *table*, in the transaction of the change.

    Give either *destinations* or the column of each row that names them. A second call replaces the arguments. The
    caller commits. On SQLite *origin* is "any", and a change of the table's columns needs the call again.

    Raises `UsageError` for arguments or a table that do not fit.
    """
    place = table_name(table)
    if origin not in ORIGINS:
        raise UsageError(f"origin is {origin!r}: choose any, other or none")
    sites = site_ids(destinations) if destinations else []
    if bool(sites) is (destinations_column is not None):
        raise UsageError("give either destinations or a column that names them")
    wanted = FollowArguments(place, names.client_name(client), tuple(sites), destinations_column, origin)
    dialects.of(connection).follow(connection, wanted)


def unfollow_table(connection: Connection, table: str, *, client: str) -> None:
    """End the sending of changes of *table* by *client*; the caller commits.

    Raises `UsageError` if *client* does not follow *table*.
    """
    dialects.of(connection).unfollow(connection, table_name(table), names.client_name(client))
