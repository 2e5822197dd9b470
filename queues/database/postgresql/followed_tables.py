"""The tables that clients follow by the triggers of `lrq_follow`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, Text, TextClause, bindparam, exc, func, select, text, true

from queues.database.dialect import Statement
from queues.database.followed_rows import FollowArguments, FollowedRows, FollowedTable, parents_first
from queues.errors import UsageError, first_line


class PostgresqlFollowTriggers:
    """See `queues.database.dialect.FollowTriggers`."""

    def follow(self, connection: Connection, wanted: FollowArguments) -> None:
        """Call `lrq_follow`."""
        _call(connection, _FOLLOW, wanted._asdict() | {"sites": list(wanted.sites) or None})

    def unfollow(self, connection: Connection, table: str, client: str) -> None:
        """Call `lrq_unfollow`."""
        _call(connection, _UNFOLLOW, {"table": table, "client": client})

    def followed_rows(self, connection: Connection, client: str, site: str) -> list[FollowedRows]:
        """Read the triggers of the tables, and give the transaction their settings."""
        tables = {table.name: table for table in _followed(connection) if table.client == client and table.is_for(site)}
        names = parents_first(list(tables), [(child, parent) for child, parent in connection.execute(_REFERENCES)])
        connection.execute(_SAME_TEXTS).close()
        return [tables[name].rows(connection, site) for name in names]

    def followed_tables(self, connection: Connection) -> list[FollowedTable]:
        """Read the triggers of the tables."""
        return [FollowedTable(each.name, each.client, each.sites, each.origin) for each in _followed(connection)]

    def naming_origin(self, site: str) -> Sequence[Statement]:
        """Return the statement that sets `lrq.origin`."""
        return [(_NAME_ORIGIN, {"origin": site})]


class _Followed(NamedTuple):
    """One followed table, with the arguments of its trigger."""

    name: str
    is_partitioned: bool
    client: str
    kind: str
    destinations: str
    followed_as: str
    origin: str

    @property
    def sites(self) -> tuple[str, ...]:
        """The destinations; empty if a column names them."""
        return () if self.kind == _BY_COLUMN else tuple(self.destinations.split(","))

    def is_for(self, site: str) -> bool:
        return self.kind == _BY_COLUMN or site in self.sites

    def rows(self, connection: Connection, site: str) -> FollowedRows:
        """Return the query of the rows for *site*."""
        # A trigger of a partitioned table fires for its partitions, but no trigger for the tables that inherit.
        only = "" if self.is_partitioned else "ONLY "
        place = _quoted(connection, _TEXT, self.followed_as if self.is_partitioned else self.name)
        # A table may have a column `t`, so the row is `t.*`.
        entry = f"json_build_object('table', {place}, 'op', 'insert', 'row', row_to_json(t.*))"
        query = _escaped(f"SELECT {entry}::text AS entry FROM {only}{self.name} AS t")  # noqa: S608 - quoted names
        if self.kind != _BY_COLUMN:
            return FollowedRows(query, {})
        # By its name, so that the query fails once the column is gone, as the trigger does.
        wanted = _escaped(_NAMES_SITE.format(column=_quoted(connection, _NAME, self.destinations)))
        return FollowedRows(f"{query} WHERE {wanted} = :site)", {"site": site})


def _followed(connection: Connection) -> Iterator[_Followed]:
    for name, is_partitioned, arguments in connection.execute(_TRIGGERS).all():
        client, kind, destinations, followed_as, *others = bytes(arguments).decode().split("\0")
        # Each argument ends with a NUL. A trigger from before migration 0032 has no origin.
        yield _Followed(name, is_partitioned, client, kind, destinations, followed_as, others[0] or "any")


def _call(connection: Connection, statement: TextClause, values: Mapping[str, object]) -> None:
    try:
        connection.execute(statement, values).close()
    except exc.DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None) or ""
        if state.startswith("LR") or state in _NO_TABLE:
            raise UsageError(first_line(error.orig)) from error
        raise


def _quoted(connection: Connection, quote: TextClause, words: str) -> str:
    return str(connection.execute(quote, {"words": words}).scalar_one())


def _escaped(sql: str) -> str:
    return sql.replace(":", "\\:")


_FOLLOW: Final = text(
    "SELECT lrq_follow(CAST(:table AS regclass), CAST(:client AS text), CAST(:sites AS text[]), "
    "CAST(:sites_column AS text), CAST(:origin AS text))"
)
_UNFOLLOW: Final = text("SELECT lrq_unfollow(CAST(:table AS regclass), CAST(:client AS text))")
#: PostgreSQL's codes for a table and a schema that do not exist.
_NO_TABLE: Final = ("42P01", "3F000")
_NAME_ORIGIN: Final = select(func.set_config("lrq.origin", bindparam("origin", type_=Text), true()))
_BY_COLUMN: Final = "column"
_TEXT: Final = text("SELECT quote_literal(:words)")
_NAME: Final = text("SELECT quote_ident(:words)")
_SAME_TEXTS: Final = text(
    "SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true), "
    "set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true), "
    "set_config('extra_float_digits', '1', true)"
)
_TRIGGERS: Final = text(
    "SELECT format('%I.%I', n.nspname, c.relname), c.relkind = 'p', t.tgargs FROM pg_trigger t "
    "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE t.tgfoid = to_regprocedure('lrq_follow_row()') AND t.tgparentid = 0 AND t.tgenabled <> 'D' "
    'ORDER BY n.nspname, c.relname COLLATE "C"'
)
_REFERENCES: Final = text(
    "SELECT format('%I.%I', n.nspname, c.relname), format('%I.%I', m.nspname, p.relname) FROM pg_constraint f "
    "JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_class p ON p.oid = f.confrelid JOIN pg_namespace m ON m.oid = p.relnamespace WHERE f.contype = 'f'"
)
# The column holds text with commas, or text[]: as the trigger reads it.
_NAMES_SITE: Final = (
    "EXISTS (SELECT FROM (SELECT to_jsonb(t.{column})) AS v (named), "
    "jsonb_array_elements_text(CASE jsonb_typeof(v.named) WHEN 'array' THEN v.named "
    "WHEN 'string' THEN to_jsonb(string_to_array(v.named #>> '{{}}', ',')) ELSE '[]' END) AS n (name) "
    "WHERE btrim(n.name)"
)
