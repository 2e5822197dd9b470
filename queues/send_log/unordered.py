"""Show, send or delete unordered entries, which have no place in the order of commits. SQLite has none."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, select

from queues.database import dialects
from queues.database.schema import untriggered
from queues.database.tables.log import unordered
from queues.database.transactions import writing
from queues.errors import SchemaMismatchError
from queues.names import ClientName
from queues.send_log.postgresql import unordered as postgresql_unordered


@dataclass(frozen=True, slots=True)
class Unordered:
    """The unordered entries of one client: how many are in the log, and how many were trimmed."""

    client: ClientName
    waiting: int
    dropped: int


def recorded(connection: Connection) -> list[Unordered]:
    """Return the unordered entries found by runs of trim."""
    if dialects.of(connection).one_writer:
        return []
    rows = connection.execute(select(unordered).order_by(unordered.c.client))
    found = [Unordered(ClientName(row.client), row.waiting, row.dropped) for row in rows]
    return [each for each in found if each.waiting or each.dropped]


def send(engine: Engine) -> int:
    """Write the unordered entries again, as one new transaction in the order of their ids; return how many.

    Raises `SchemaMismatchError` if the ordering trigger is disabled, because the entries would be unordered again.
    """
    if dialects.of(engine).one_writer:
        return 0
    with writing(engine.execution_options(isolation_level="READ COMMITTED")) as connection:
        without = untriggered(connection)
        if without:
            raise SchemaMismatchError(
                f"the ordering trigger does not always fire on {', '.join(without)}: "
                f"run `ALTER TABLE {without[0]} ENABLE ALWAYS TRIGGER lrq_sequence_commit`, the same for the others"
            )
        return postgresql_unordered.send(connection)


def drop(engine: Engine) -> int:
    """Delete the unordered entries and their record; return how many were deleted."""
    if dialects.of(engine).one_writer:
        return 0
    with writing(engine.execution_options(isolation_level="READ COMMITTED")) as connection:
        return postgresql_unordered.drop(connection)
