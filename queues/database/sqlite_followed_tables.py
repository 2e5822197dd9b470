"""The tables that clients follow by triggers on SQLite."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, text

from queues.database.dialect import Statement
from queues.database.followed_rows import FollowArguments, FollowedRows, FollowedTable, parents_first
from queues.database.sqlite_follow import TriggerArguments, arguments
from queues.errors import ConfigurationError, UnknownDestinationError, UsageError
from queues.sql_names import last_part, literal, quoted


class SqliteFollowTriggers:
    """See `queues.database.dialect.FollowTriggers`."""

    def follow(self, connection: Connection, wanted: FollowArguments) -> None:
        """Create the triggers, in place of those of an earlier call."""
        if wanted.origin != "any":
            raise UsageError(f"origin is {wanted.origin!r}, and SQLite knows no origin of a row: leave it out")
        if connection.execute(_OWN_SITE).scalar() in wanted.sites:
            raise UnknownDestinationError("a destination is this site itself: name other sites")
        if connection.exec_driver_sql("PRAGMA encoding").scalar() != "UTF-8":
            raise UsageError("the file is not in UTF-8, so payloads would not be either: write triggers of your own")
        own, created_by = _existing(connection, last_part(wanted.table))
        columns = tuple(connection.execute(_COLUMNS, {"name": own}).scalars())
        if wanted.sites_column is not None and wanted.sites_column not in columns:
            raise UsageError(f"{own} has no column {wanted.sites_column}: name a column with site ids")
        given = TriggerArguments(own, wanted.client, wanted.sites, wanted.sites_column, columns, created_by)
        _drop(connection, own, wanted.client)
        taken = {row.name.lower() for row in connection.execute(_TRIGGERS)}
        for statement in given.triggers(taken):
            connection.exec_driver_sql(statement).close()

    def unfollow(self, connection: Connection, table: str, client: str) -> None:
        """Drop the triggers."""
        own, _ = _existing(connection, last_part(table))
        if not _drop(connection, own, client):
            raise UsageError(f"client {client} does not follow {own}: correct the client or the table")

    def followed_rows(self, connection: Connection, client: str, site: str) -> list[FollowedRows]:
        """Read the triggers; raise `ConfigurationError` if the columns of a table have changed since."""
        chosen = {
            each.table: each
            for each in _followed(connection)
            if each.client == client and (each.sites_column is not None or site in each.sites)
        }
        references = connection.execute(_REFERENCES).all()
        order = parents_first(list(chosen), [(child, parent) for child, parent in references])
        return [_rows(connection, chosen[name], site) for name in order]

    def followed_tables(self, connection: Connection) -> list[FollowedTable]:
        """Read the triggers of the tables."""
        return [
            FollowedTable(each.table, each.client, each.sites, "any", has_changed=_has_changed(connection, each))
            for each in _followed(connection)
        ]

    def naming_origin(self, site: str) -> Sequence[Statement]:  # noqa: ARG002
        """Return nothing: a transaction of SQLite has no settings."""
        return ()


def _existing(connection: Connection, name: str) -> tuple[str, str]:
    """Return the name and the statement of a table that can be followed."""
    found = connection.execute(_TABLE, {"name": name}).first()
    if found is None:
        raise UsageError(f"there is no table {name}: name the table that the client follows")
    if found.type != "table" or found.sql.upper().startswith("CREATE VIRTUAL"):
        raise UsageError(f"{found.name} is no table with triggers for its rows: follow the tables behind it")
    if found.name.startswith("lrq_"):
        raise UsageError(f"{found.name} is a table of lrq: follow tables of the application")
    return found.name, found.sql


def _followed(connection: Connection) -> Iterator[TriggerArguments]:
    for name, table, statement in connection.execute(_TRIGGERS).all():
        found = arguments(statement)
        if found is not None and name.endswith("_insert"):
            # The table may have been renamed since.
            yield found._replace(table=table)


def _drop(connection: Connection, table: str, client: str) -> bool:
    triggers = [row for row in connection.execute(_TRIGGERS).all() if row.tbl_name == table]
    names = [row.name for row in triggers if (found := arguments(row.sql)) is not None and found.client == client]
    for name in names:
        connection.exec_driver_sql(f"DROP TRIGGER {quoted(name)}").close()
    return bool(names)


def _has_changed(connection: Connection, followed: TriggerArguments) -> bool:
    _, created_by = _existing(connection, followed.table)
    return created_by != followed.created_by


def _rows(connection: Connection, followed: TriggerArguments, site: str) -> FollowedRows:
    if _has_changed(connection, followed):
        raise ConfigurationError(f"the columns of {followed.table} have changed: run lrq follow again")
    query = f"SELECT {followed.entry('t')} AS entry FROM {quoted(followed.table)} AS t"  # noqa: S608 - quoted names
    if followed.sites_column is None:
        return FollowedRows(query.replace(":", "\\:"), {})
    wanted = f" WHERE {literal(site)} IN ({followed.names('t')})"
    return FollowedRows(f"{query}{wanted}".replace(":", "\\:"), {})


_OWN_SITE: Final = text("SELECT site_id FROM lrq_site")
_TABLE: Final = text(
    "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = :name COLLATE NOCASE"
)
# A virtual generated column has no value in a trigger.
_COLUMNS: Final = text("SELECT name FROM pragma_table_xinfo(:name) WHERE hidden IN (0, 3) ORDER BY cid")
_TRIGGERS: Final = text(
    r"SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'lrq\_follow\_%' ESCAPE '\' "
    "ORDER BY tbl_name, name"
)
_REFERENCES: Final = text(
    "SELECT m.name, f.\"table\" FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table'"
)
