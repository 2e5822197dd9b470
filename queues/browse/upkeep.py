"""The upkeep of a site's queues that is due: one statement asks all questions, because a quiet server asks often."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, bindparam, select

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.receive import parked_rows
from queues.send_log import links, staging
from queues.send_snapshot import garbage


class DueUpkeep(NamedTuple):
    """The kinds of upkeep that may have work; all others would change nothing.

    `snapshots`: `collect_garbage`. `staged`: `forget_abandoned`. `parked`: `forget_parked`. `links`: `mend_number`.
    """

    snapshots: bool
    staged: bool
    parked: bool
    links: bool


def due_upkeep(connection: Connection, *, parked_before_us: int) -> DueUpkeep:
    """Return the upkeep that is due; parked entries may go if they were parked before *parked_before_us*.

    No statement follows in the transaction.
    """
    dialect = dialects.of(connection)
    [[row]] = dialect.run_all(connection, [(_DUE[dialect], {"parked_before": parked_before_us})], last=True)
    return DueUpkeep(*map(bool, row))


def _due(dialect: Dialect) -> Select[Any]:
    return select(garbage.is_due(dialect.present_us)).add_columns(
        staging.has_abandoned(dialect.present_us),
        parked_rows.has_older(bindparam("parked_before", type_=BigInteger)),
        links.is_number_wrong(dialect),
    )


_DUE: Final[Mapping[Dialect, Select[Any]]] = {dialect: _due(dialect) for dialect in dialects.DIALECTS.values()}
