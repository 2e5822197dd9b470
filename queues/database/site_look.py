"""One look at a site's database that tells whether all is well: servers look every two seconds."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.schema import SCHEMA, version_table
from queues.database.standby_facts import asked_for
from queues.database.tables.site import site
from queues.names import SiteId


def is_well(connection: Connection, site_id: SiteId) -> bool:
    """Return whether the tables are those of *site_id* at this schema, and no commit waits for a standby server.

    After False, `require` and `standby_facts` tell more, and may find that all is well. Tables that do not exist, or
    stand outside of the search path, fail the statement. No statement follows in the transaction.
    """
    [rows] = dialects.of(connection).run_all(connection, [(_LOOK[dialects.of(connection)], {})], last=True)
    return [(version, found, asked_for(setting)) for version, found, setting in rows] == [(SCHEMA, site_id, 0)]


def _look(dialect: Dialect) -> Select[Any]:
    version = select(func.max(version_table.c.version_num)).scalar_subquery()
    return select(version, site.c.site_id, dialect.standby_setting)


_LOOK: Final[Mapping[Dialect, Select[Any]]] = {dialect: _look(dialect) for dialect in dialects.DIALECTS.values()}
