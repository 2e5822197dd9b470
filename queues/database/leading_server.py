"""The endpoints of the server that leads the log of a site, for other servers of the same database."""

from typing import Final

from sqlalchemy import Engine, select

from queues.database import dialects
from queues.database.tables.servers import leases, servers
from queues.database.transactions import reading

_LEADING: Final = (
    select(servers.c.endpoints, leases.c.expires_us)
    .join(leases, leases.c.owner == servers.c.server)
    .where(leases.c.name == "server")
)


def leading_endpoints(engine: Engine) -> tuple[str, ...]:
    """Return the endpoints of the server that holds the lease `server`; none without such a server."""
    with reading(engine) as connection:
        row = connection.execute(_LEADING).first()
        now = dialects.of(connection).now_us(connection)
    return tuple(filter(None, row.endpoints.split(","))) if row is not None and row.expires_us > now else ()
