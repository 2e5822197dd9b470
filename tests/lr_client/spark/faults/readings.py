"""The table `readings`, from which snapshots are built, and functions that read those snapshots."""

from pathlib import Path

from sqlalchemy import Engine, func, select, text

from queues import send_snapshot
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import writing
from tests.lr_client.snapshot.providing import rows_of

#: Enough for four parts, each larger than one batch of `PartWriter`.
ROWS = 80_000
#: The number of rows of a part before it waits for `go`.
HALT = 12_000
#: The longest time, in seconds, for a job that is killed and repeated on a busy machine.
PATIENCE = 300.0


def create(engine: Engine) -> None:
    """Make the table `readings`."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE readings (id INTEGER PRIMARY KEY, words TEXT NOT NULL)"))
        connection.execute(
            text("INSERT INTO readings VALUES (:id, :words)"),
            [{"id": number, "words": f"{number} {'x' * 200}"} for number in range(ROWS)],
        )


def change(engine: Engine) -> None:
    """Change rows that snapshots begun before must still show unchanged."""
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM readings WHERE id % 3 = 0"))
        connection.execute(text("UPDATE readings SET words = 'changed' WHERE id % 3 = 1"))


def contents(engine: Engine) -> list[tuple[bytes, str]]:
    """Return the rows of a snapshot taken now, as payloads and keys, in the order of their text."""
    with engine.connect() as connection:
        return sorted(
            (row.words.encode(), str(row.id)) for row in connection.execute(text("SELECT id, words FROM readings"))
        )


def published(engine: Engine, sync_id: str) -> list[tuple[bytes, str | None]]:
    """Return the rows that a sink is sent, in the order of their text."""
    return sorted((row.payload, row.item_key) for row in rows_of(engine, sync_id, limit_bytes=8 << 20))


def written(engine: Engine) -> dict[tuple[int, int], int]:
    """Return the number of stored rows for each try of each part, visible or not."""
    blocks = snapshot_blocks.c
    which = (blocks.part, blocks.attempt)
    with engine.connect() as connection:
        counted = connection.execute(select(*which, func.sum(blocks.row_count).label("rows")).group_by(*which))
        return {(row.part, row.attempt): int(row.rows) for row in counted}


def halted(engine: Engine, tries: int) -> bool:
    """Return whether *tries* tries of parts are in the middle of their rows, or died there."""
    return sum(rows >= HALT // 2 for rows in written(engine).values()) >= tries


def collect(engine: Engine) -> int:
    """Collect all garbage; return the number of rows left."""
    deleted = 1
    while deleted:
        with writing(engine) as connection:
            deleted = send_snapshot.collect_garbage(connection)
    return sum(written(engine).values())


def go(folder: Path) -> None:
    """Let the halted parts continue."""
    (folder / "go").touch()
