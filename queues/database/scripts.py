"""Run the migrations of `alembic/versions`, or print them as SQL, without Alembic's module-level state.

So they run in several threads at once, and in the middle of an application's own Alembic migration.
"""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection

from queues.database.schema import VERSION_TABLE
from queues.errors import UsageError, first_line

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext, MigrationStep
    from alembic.script import Script

_PACKAGED: Final = Path(__file__).parents[1] / "_migrations"
_CHECKOUT: Final = Path(__file__).parents[2] / "alembic"


def config() -> "Config":
    """Return the Alembic configuration of the migrations in the wheel, or in the checkout if there is no wheel."""
    from alembic.config import Config

    found = Config()
    scripts = _PACKAGED if _PACKAGED.exists() else _CHECKOUT
    found.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return found


def upgrade(connection: Connection, revision: str) -> None:
    """Run the migrations up to *revision* in the open transaction of *connection*; raise `UsageError` if unknown."""
    _run(_Run(revision, down=False), connection)


def downgrade(connection: Connection, revision: str) -> None:
    """Undo the migrations after *revision* in the open transaction of *connection*; raise `UsageError` if unknown."""
    _run(_Run(revision, down=True), connection)


def sql(dialect_name: str, revision: str, *, start: str | None, down: bool = False, transactional: bool = False) -> str:
    """Return the SQL of the migrations from *start* (None: an empty database) to *revision*.

    The SQL has BEGIN and COMMIT only if *transactional*. Raises `UsageError` for an unknown revision.
    """
    from alembic.runtime.migration import MigrationContext

    run = _Run(revision, down=down)
    output = io.StringIO()
    options: dict[str, Any] = {"as_sql": True, "output_buffer": output, "literal_binds": True, "starting_rev": start}
    context = MigrationContext.configure(
        dialect_name=dialect_name, dialect_opts={"paramstyle": "named"}, opts=run.options | options
    )
    run.migrate(context, transactional=transactional)
    return output.getvalue()


def _run(run: "_Run", connection: Connection) -> None:
    from alembic.runtime.migration import MigrationContext

    run.migrate(MigrationContext.configure(connection, opts=run.options))


class _Run:
    """One run of the migrations to a revision, up or down."""

    def __init__(self, revision: str, *, down: bool) -> None:
        from alembic.script import ScriptDirectory

        self._revision = revision
        self._down = down
        self._scripts: ScriptDirectory = ScriptDirectory.from_config(config())
        self.options: dict[str, Any] = {
            "version_table": VERSION_TABLE,
            "transactional_ddl": True,
            "script": self._scripts,
            "fn": self._steps,
        }

    def migrate(self, context: "MigrationContext", *, transactional: bool = True) -> None:
        """Run the migrations; in an open transaction Alembic begins no other."""
        from alembic.script.revision import RevisionError
        from alembic.util import CommandError

        try:
            if transactional:
                with context.begin_transaction():
                    context.run_migrations()
            else:
                context.run_migrations()
        except (CommandError, RevisionError) as error:
            raise UsageError(f"lrq's migrations cannot go to {self._revision!r}: {first_line(error)}") from error

    def _steps(self, heads: tuple[str, ...], context: "MigrationContext") -> "list[MigrationStep]":
        from alembic.operations import Operations
        from alembic.runtime.migration import MigrationStep

        operations = Operations(context)
        revisions = self._scripts.revision_map
        if self._down:
            found = self._scripts.iterate_revisions(heads, self._revision, select_for_downgrade=True)
            return [MigrationStep.downgrade_from_script(revisions, each) for each in _bound(found, operations)]
        found = self._scripts.iterate_revisions(self._revision, heads, implicit_base=True)
        return [MigrationStep.upgrade_from_script(revisions, each) for each in reversed(_bound(found, operations))]


def _bound(scripts: "Iterable[Script]", operations: "Operations") -> "list[Script]":
    """Give each script *operations* as its `op`: the `op` of the module `alembic` may be in use by an application."""
    found = list(scripts)
    for each in found:
        vars(each.module)["op"] = operations
    return found
