"""The site itself and its histories."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text, text

from queues.database.tables.base import metadata

site = Table(
    "lrq_site",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("site_id", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    # Versions of lrq that need this schema or a later one can use the tables.
    Column("oldest_schema", Text, nullable=False, server_default="0002"),
)

branches = Table(
    "lrq_branches",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("inherited", Text, nullable=False, server_default=text("''")),
)
