"""Servers of the site, their leases, and the ranges of sessions that they lead."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text, text

from queues.database.tables.base import metadata

leases = Table(
    "lrq_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)

#: The running servers of the site; a row counts until `expires_us`. `endpoints`: where it listens, between commas.
servers = Table(
    "lrq_servers",
    metadata,
    Column("server", Text, primary_key=True),
    Column("endpoints", Text, nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    # The place of the server's peers, their version, and the reason why newer peers are not used.
    Column("topology", Text, nullable=False, server_default=text("''")),
    Column("topology_version", BigInteger, nullable=False, server_default="0"),
    Column("topology_trouble", Text, nullable=False, server_default=text("''")),
    # The reason why the server can store no received entry of some session.
    Column("sink_trouble", Text, nullable=False, server_default=text("''")),
)

#: The last server that led each range of sessions, and the generation under which it leads.
ranges = Table(
    "lrq_ranges",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("server", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
)

#: One row: the newest generation of the site, and the number of its ranges. No server has fixed a number of 0.
generations = Table(
    "lrq_generations",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("ranges", Integer, nullable=False),
)
