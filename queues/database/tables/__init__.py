"""The tables of a site, as SQLAlchemy metadata: each module has the tables of one thing.

The package imports each module, so that the metadata has each table. Migrations create the tables; a test proves that
both are equal. Times are in microseconds since 1970 (UTC). A comment names the dialect of tables that only one dialect
has.
"""

from queues.database.tables import (
    actions,
    consumers,
    destinations,
    log,
    peers,
    producers,
    receive,
    replicas,
    resends,
    rewritten,
    ring,
    servers,
    sessions,
    shards,
    site,
    snapshots,
    sql_transmit,
    ticks,
    views,
)
from queues.database.tables.base import metadata, names, postgresql_metadata, sqlite_metadata, views_metadata

__all__ = [
    "actions",
    "consumers",
    "destinations",
    "log",
    "metadata",
    "names",
    "peers",
    "postgresql_metadata",
    "producers",
    "receive",
    "replicas",
    "resends",
    "rewritten",
    "ring",
    "servers",
    "sessions",
    "shards",
    "site",
    "snapshots",
    "sql_transmit",
    "sqlite_metadata",
    "ticks",
    "views",
    "views_metadata",
]
