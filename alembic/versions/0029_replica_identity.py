"""On PostgreSQL, a publication of all tables forbids no deletion of log entries, which have no primary key."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

SLOTS = range(8)


def _identify(identity: str) -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    for table in ("lrq_log_entries", "lrq_log_commits"):
        # PostgreSQL asks each partition, and a partition inherits nothing from its parent here.
        for slot in SLOTS:
            op.execute(f"ALTER TABLE {table}_{slot} REPLICA IDENTITY {identity}")


def upgrade() -> None:
    _identify("FULL")


def downgrade() -> None:
    _identify("DEFAULT")
