"""How Alembic runs these migrations: for `queues.database.migrations`, and for developers with `alembic -x url=...`."""

from alembic import context
from sqlalchemy import Connection, MetaData

from queues import create_engine
from queues.database import dialects, tables
from queues.database.schema import VERSION_TABLE

config = context.config


def _is_ours(name: str | None, kind: str, own: MetaData) -> bool:
    if kind != "table" or name is None:
        return True
    partition = name[:-1] in ("lrq_log_entries_", "lrq_log_commits_") and name not in own.tables
    return name.startswith("lrq_") and not partition


def _configure(connection: Connection) -> None:
    own = dialects.of(connection).own_tables
    context.configure(
        connection=connection,
        target_metadata=[tables.metadata, own],
        version_table=VERSION_TABLE,
        include_name=lambda name, kind, _parents: _is_ours(name, kind, own),
        transactional_ddl=True,
        compare_server_default=True,
    )


def _run() -> None:
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    context.configure(
        dialect_name=config.attributes["dialect_name"],
        dialect_opts={"paramstyle": "named"},
        literal_binds=True,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
    )
    _run()
elif "connection" in config.attributes:
    _configure(config.attributes["connection"])
    _run()
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as opened:
        _configure(opened)
        _run()
