"""A table that snapshots are taken of, and a look at what is there of them."""

from pathlib import Path

from sqlalchemy import Engine, func, select, text

from queues import snapshots
from queues.tables import snapshot_blocks
from queues.transactions import writing
from tests.snapshot.providing import rows_of

#: In four parts, each larger than what `PartWriter` gathers of it before it writes.
ROWS = 80_000
#: How many rows of a part go through before it waits for `go`.
HALT = 12_000
#: A job that is killed, and begun again, on a busy machine, in seconds.
PATIENCE = 150.0


def create(engine: Engine) -> None:
    """Make the table `readings`."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE readings (id INTEGER PRIMARY KEY, words TEXT NOT NULL)"))
        connection.execute(
            text("INSERT INTO readings VALUES (:id, :words)"),
            [{"id": number, "words": f"{number} {'x' * 200}"} for number in range(ROWS)],
        )


def change(engine: Engine) -> None:
    """Change what snapshots that have begun must not see changed."""
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM readings WHERE id % 3 = 0"))
        connection.execute(text("UPDATE readings SET words = 'changed' WHERE id % 3 = 1"))


def contents(engine: Engine) -> list[tuple[bytes, str]]:
    """Return what a snapshot of now has: payloads and keys, in the order of their text."""
    with engine.connect() as connection:
        return sorted(
            (row.words.encode(), str(row.id)) for row in connection.execute(text("SELECT id, words FROM readings"))
        )


def published(engine: Engine, sync_id: str) -> list[tuple[bytes, str | None]]:
    """Return what a sink is sent, in the order of its text."""
    return sorted((row.payload, row.item_key) for row in rows_of(engine, sync_id, limit_bytes=8 << 20))


def written(engine: Engine) -> dict[tuple[int, int], int]:
    """Return how many rows are stored by each try of each part, visible or not."""
    blocks = snapshot_blocks.c
    which = (blocks.part, blocks.attempt)
    with engine.connect() as connection:
        counted = connection.execute(select(*which, func.sum(blocks.row_count).label("rows")).group_by(*which))
        return {(row.part, row.attempt): int(row.rows) for row in counted}


def halted(engine: Engine, tries: int) -> bool:
    """Tell whether *tries* tries of parts are in the middle of their rows, or have been when they died."""
    return sum(rows >= HALT // 2 for rows in written(engine).values()) >= tries


def collect(engine: Engine) -> int:
    """Collect all garbage; return how many rows are left."""
    deleted = 1
    while deleted:
        with writing(engine) as connection:
            deleted = snapshots.collect_garbage(connection)
    return sum(written(engine).values())


def go(folder: Path) -> None:
    """Let the halted go on."""
    (folder / "go").touch()
