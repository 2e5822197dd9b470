"""How a developer's `alembic -x url=...` runs these migrations; lrq itself uses `queues.database.scripts`."""

from alembic import context
from sqlalchemy import Connection, MetaData

from queues import create_engine, include_name
from queues.database import dialects, tables
from queues.database.schema import VERSION_TABLE

config = context.config


def _is_compared(name: str | None, kind: str, own: MetaData) -> bool:
    if kind != "table" or name is None:
        return True
    partition = name[:-1] in ("lrq_log_entries_", "lrq_log_commits_") and name not in own.tables
    return not include_name(name, kind, {}) and not partition


def _configure(connection: Connection) -> None:
    own = dialects.of(connection).own_tables
    context.configure(
        connection=connection,
        target_metadata=[tables.metadata, own],
        version_table=VERSION_TABLE,
        include_name=lambda name, kind, _parents: _is_compared(name, kind, own),
        transactional_ddl=True,
        compare_server_default=True,
    )


def _run() -> None:
    with context.begin_transaction():
        context.run_migrations()


if "connection" in config.attributes:
    _configure(config.attributes["connection"])
    _run()
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as opened:
        _configure(opened)
        _run()
