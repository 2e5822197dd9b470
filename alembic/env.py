"""How Alembic runs these migrations: for `queues.migrate`, and for developers with `alembic -x url=...`."""

from alembic import context
from sqlalchemy import Connection

from queues import create_engine, tables
from queues.schema import VERSION_TABLE

config = context.config


def _is_ours(name: str | None, kind: str, parents: object) -> bool:  # noqa: ARG001 - Alembic's signature
    if kind != "table" or name is None:
        return True
    partition = name[:-1] in ("lrq_log_entries_", "lrq_log_commits_") and _dialect_name() == "postgresql"
    return name.startswith("lrq_") and not partition


def _dialect_name() -> str:
    return context.get_context().dialect.name


def _configure(connection: Connection) -> None:
    own = tables.sqlite_metadata if connection.dialect.name == "sqlite" else tables.postgresql_metadata
    context.configure(
        connection=connection,
        target_metadata=[tables.metadata, own],
        version_table=VERSION_TABLE,
        include_name=_is_ours,
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
