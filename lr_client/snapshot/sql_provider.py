"""A snapshot provider that runs queries at the pinned cut, in plain Python and with bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, CursorResult, Row, exc

from lr_client.snapshot.context import SnapshotContext
from lr_client.snapshot.row_json import row_json
from lr_client.snapshot.sql_query import Encode, ItemKey, SqlQuery, SqlRow, named_parameters
from queues.errors import SnapshotFailedError, UsageError
from queues.words import describe

#: The most rows that one fetch brings into memory.
FETCHED_ROWS: Final = 500
#: The bytes of payloads that one fetch should bring, by the size of the rows before.
FETCHED_BYTES: Final = 4 * 1024**2
_FIRST_ROWS: Final = 4


class SqlSnapshotProvider:
    """A `SnapshotProvider` whose rows are those of one or several queries.

    All queries see the database exactly at the snapshot's base. So each commit is either in the snapshot or in the log
    after it. Rows stream from the database. At most `FETCHED_ROWS` are in memory at a time, and fewer of large ones.

    Example:
        >>> provider = SqlSnapshotProvider(
        ...     "SELECT id, name FROM airports WHERE country = :country",
        ...     encode=lambda row: f"{row.id} {row.name}".encode(),
        ...     item_key="id",
        ...     parameters={"country": "PE"},
        ... )
        >>> transmitter = client.start_snapshot_transmitter(engine, provider)
    """

    def __init__(
        self,
        *queries: str | SqlQuery,
        encode: Encode = row_json,
        item_key: ItemKey | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Transmit the rows of *queries*, one query after the other.

        *encode*, *item_key* and *parameters* are those of the queries given as texts; a `SqlQuery` has its own. Each
        text takes the parameters that it names.

        Raises `UsageError` as `SqlQuery` does, and without a query.
        """
        if not queries:
            raise UsageError("SqlSnapshotProvider has no query: write one, such as 'SELECT id, name FROM airports'")
        given = dict(parameters or {})
        texts = [each for each in queries if isinstance(each, str)]
        used: set[str] = set().union(*map(named_parameters, texts))
        for name in sorted(set(given) - used):
            raise UsageError(f"no query has the parameter {name}: write :{name} in a query, or remove the value")
        self._queries: Sequence[SqlQuery] = [_query(each, encode, item_key, given) for each in queries]

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Transmit every row, then complete the snapshot.

        Raises `SnapshotFailedError` if a query fails, or a row cannot be encoded.
        """
        with context.snapshot.connect() as connection:
            transmit_queries(context, connection, self._queries)
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        """Do nothing: the next row raises `SnapshotCancelledError`."""


def transmit_queries(context: SnapshotContext, connection: Connection, queries: Sequence[SqlQuery]) -> None:
    """Transmit the rows of *queries*, one query after the other, on a *connection* to the cut of *context*.

    Raises `SnapshotFailedError` if a query fails, or a row cannot be encoded.
    """
    # A plan locks the tables of its query. So no table is emptied or altered while an earlier query runs.
    for number, query in enumerate(queries, start=1):
        with _told(number):
            connection.execute(query.plan(), query.parameters).close()
    for number, query in enumerate(queries, start=1):
        _transmit(context, connection, query, number, len(queries))


def next_fetch(rows: int, size: int) -> int:
    """Return the number of rows for the next fetch after one of *rows* with *size* bytes of payloads. Pure."""
    fitting = rows * FETCHED_BYTES // max(size, 1)
    return max(min(fitting, 4 * rows, FETCHED_ROWS), 1)


def _transmit(context: SnapshotContext, connection: Connection, query: SqlQuery, number: int, of: int) -> None:
    with _told(number):
        # The first rows come one by one, as their size is unknown; each fetch names its number of rows.
        options = {"stream_results": True, "max_row_buffer": 1}
        result = connection.execute(query.clause(), query.parameters, execution_options=options)
    # The cursor on the server is closed also after an error, which the garbage collector would do too late.
    with result:
        columns = _columns(result, number)
        count, wanted = 0, _FIRST_ROWS
        while rows := _fetched(result, wanted, number):
            encoded: list[tuple[bytes, str | None]] = []
            for each in rows:
                context.attempt.check()
                row = SqlRow(zip(columns, each, strict=True))
                encoded.append((query.encode(row), query.key_of(row)))
            count += len(rows)
            wanted = next_fetch(len(rows), sum(len(payload) for payload, _ in encoded))
            context.attempt.add_many(encoded, f"query {number} of {of}: {count:,} rows")


def _fetched(result: CursorResult[Any], wanted: int, number: int) -> Sequence[Row[Any]]:
    """Return the next rows; no error of the caller counts as an error of the query."""
    with _told(number):
        return result.fetchmany(wanted)


def _columns(result: CursorResult[Any], number: int) -> list[str]:
    if not result.returns_rows:
        raise SnapshotFailedError(f"query {number} returns no rows: write a SELECT")
    columns = list(result.keys())
    for name in columns:
        if columns.count(name) > 1:
            raise SnapshotFailedError(f"query {number} has two columns {name}: name one of them with AS")
    return columns


@contextmanager
def _told(number: int) -> Iterator[None]:
    """Turn an error of SQLAlchemy into one sentence, without the values of rows."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise SnapshotFailedError(
            f"query {number} has failed ({describe(error)}): correct the query if that repeats"
        ) from error


def _query(given: str | SqlQuery, encode: Encode, item_key: ItemKey | None, parameters: Mapping[str, Any]) -> SqlQuery:
    if isinstance(given, SqlQuery):
        return given
    if not isinstance(given, str):
        raise UsageError(f"a query is {type(given).__name__}: write SQL as a text, or a SqlQuery")
    own = {name: parameters[name] for name in named_parameters(given) if name in parameters}
    return SqlQuery(given, encode, item_key, own)
