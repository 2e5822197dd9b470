"""The metadata of the tables. A table of one dialect has the metadata of that dialect."""

from sqlalchemy import BigInteger, Integer, MetaData
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: The tables that only SQLite has.
sqlite_metadata = MetaData(naming_convention=metadata.naming_convention)

#: The tables that only PostgreSQL has.
postgresql_metadata = MetaData(naming_convention=metadata.naming_convention)

#: Views, which a role may read without a right on the tables (docs/sql.md).
views_metadata = MetaData()

#: SQLite gives rowids only to a column declared INTEGER.
Number: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")


def names(own: MetaData) -> list[str]:
    """Return the names of all tables of lrq, with those of one dialect in *own*."""
    return [table.name for table in (*metadata.tables.values(), *own.tables.values())]
