"""Receive queues with entries survive the migration to blocks and back."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, Engine, Row, create_engine, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from queues.database import migrations, schema, scripts
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks, receive_marks
from queues.database.tables.site import site
from queues.receive.received_rows import ReceivedRow
from tests.received import received_rows

#: One block of the conversion cannot hold so many entries. Numbers are missing after 3 and after 900.
SEQS = [*range(1, 4), *range(10, 901), *range(905, 910)]
LARGE = bytes(range(256)) * 3_000
_ZEROS = ("generation", "boundary_seq", "staging_rows", "staging_bytes", "staging_checksum", "sync_rows", "base_seq")
_TOTALS = ("entries_total", "duplicates_total", "source_seq", "source_us", "updated_us", "bytes_total")
_TEXTS = ("branch", "cut", "staging_sync_id")


def go_to(site: Engine, revision: str) -> None:
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        down = (schema.version(connection) or "") > revision
        (command.downgrade if down else command.upgrade)(config, revision)


def row_of(seq: int) -> dict[str, object]:
    """Return an entry of a transaction with up to four entries, some of them without a key, headers or payload."""
    payload = LARGE if seq in (20, 22) else b"" if seq % 5 == 0 else b"payload %d" % seq
    return {
        "seq": seq,
        "transaction_seq": max(seq - seq % 4, 1),
        "committed_us": 1_000 + seq,
        "item_key": f"clé {seq}" if seq % 3 == 0 else None,
        "payload": payload,
        "headers": '{"é":"b"}' if seq % 7 == 0 else None,
        "partition_key": "north" if seq % 2 else None,
    }


def counted(rows: Sequence[ReceivedRow]) -> int:
    """Return the bytes that *rows* counted in schema 0016."""
    return sum(len(row.payload) + len((row.headers or "").encode()) + 64 for row in rows)


def fill(connection: Connection, queue_id: int, *, applied: int, sync_id: str, begun: str) -> None:
    """Fill a queue of schema 0016, whose subscriber has applied *applied* earlier bytes of snapshot *begun*."""
    columns = "queue_id, seq, transaction_seq, committed_us, item_key, payload, headers, partition_key"
    marks = ", ".join(f":{name}" for name in columns.split(", "))
    statement = text(f"INSERT INTO lrq_receive_entries ({columns}) VALUES ({marks})")
    connection.execute(statement, [{"queue_id": queue_id, **row_of(seq)} for seq in SEQS])
    none = {**dict.fromkeys((*_ZEROS, *_TOTALS), 0), **dict.fromkeys(_TEXTS, "")}
    connection.execute(insert(receive_marks).values(queue_id=queue_id, version=1, seq=909, sync_id=sync_id, **none))
    connection.execute(
        insert(consumers).values(
            queue_id=queue_id, version=1, generation=1, phase="log", sync_id=begun, row_no=0, branch="b", seq=0,
            applied_total=0, undoes=False, back_seq=-1, updated_us=0, applied_bytes=applied,
        )
    )  # fmt: skip


def old_rows(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(text("SELECT * FROM lrq_receive_entries ORDER BY queue_id, seq")))


@pytest.fixture
def old(site: Engine) -> Engine:
    """Two queues with entries, in schema 0016; a snapshot of the second one has not begun."""
    go_to(site, "0016")
    with site.begin() as connection:
        fill(connection, 1, applied=100, sync_id="s1", begun="s1")
        fill(connection, 2, applied=0, sync_id="s2", begun="s1")
    return site


def test_entries_become_blocks_and_rows_again_without_a_change(old: Engine) -> None:
    with old.connect() as connection:
        before = old_rows(connection)
    go_to(old, "0017")
    with old.connect() as connection:
        assert [row._asdict() for row in received_rows(connection)] == [row_of(seq) for seq in SEQS] * 2
        blocks = connection.execute(select(receive_blocks)).all()
        assert 4 < len(blocks) < 20
        assert max(row.row_count for row in blocks) == 500
        assert connection.execute(select(site.c.oldest_schema)).scalar_one() >= "0017"
        for queue_id, applied in ((1, 100), (2, 0)):
            size = sum(row.size for row in blocks if row.queue_id == queue_id)
            own = receive_marks.c.queue_id == queue_id
            marks = connection.execute(select(receive_marks.c["version", "bytes_total"]).where(own)).one()
            assert tuple(marks) == (2, applied + size)
    go_to(old, "0016")
    with old.connect() as connection:
        assert old_rows(connection) == before
        assert connection.execute(select(site.c.oldest_schema)).scalar_one() == "0002"


def test_applied_entries_of_a_block_do_not_come_back(old: Engine) -> None:
    go_to(old, "0017")
    with old.begin() as connection:
        connection.execute(consumers.update().values(seq=300))
    go_to(old, "0016")
    with old.connect() as connection:
        found = connection.execute(text("SELECT queue_id, seq FROM lrq_receive_entries ORDER BY queue_id, seq")).all()
        rows = [ReceivedRow(**row_of(seq)) for seq in SEQS if seq > 300]
        total = select(receive_marks.c.bytes_total).where(receive_marks.c.queue_id == 1)
        assert connection.execute(total).scalar_one() == 100 + counted(rows)
    # The second queue begins a new history: its subscriber has applied none of these entries.
    assert [tuple(row) for row in found] == [(1, row.seq) for row in rows] + [(2, seq) for seq in SEQS]


def test_a_rollback_that_is_still_to_undo_says_which_entries_are_left(old: Engine) -> None:
    go_to(old, "0017")
    with old.begin() as connection:
        connection.execute(consumers.update().values(seq=300, back_seq=200))
    go_to(old, "0016")
    with old.connect() as connection:
        first = text("SELECT min(seq) FROM lrq_receive_entries WHERE queue_id = 1")
        assert connection.execute(first).scalar_one() == 201


def apply(engine: Engine, script: str) -> None:
    """Run a script as a DBA does."""
    driver_script = getattr(engine.raw_connection().driver_connection, "executescript", None)
    if driver_script is not None:
        driver_script(script)
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(script.replace("%", "%%"))


@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
def test_printed_sql_migrates_only_queues_without_entries(old: Engine, dialect: str, down: bool) -> None:
    start, end = ("0017", "0016") if down else ("0016", "0017")
    if down:
        go_to(old, "0017")
    script = scripts.sql(dialect, end, start=start, down=down, transactional=True)
    own = create_engine(old.url)
    with closing(own.raw_connection()), pytest.raises(Exception, match=r"hold entries|CHECK constraint failed"):
        apply(own, script)
    own.dispose()
    table = "lrq_receive_blocks" if down else "lrq_receive_entries"
    with old.begin() as connection:
        assert schema.version(connection) == start
        connection.execute(text(f"DELETE FROM {table}"))
    apply(own, script)
    with old.connect() as connection:
        assert schema.version(connection) == end
        with pytest.raises(SQLAlchemyError):
            connection.execute(text(f"SELECT * FROM {table}"))
    own.dispose()


def test_a_new_site_refuses_versions_without_blocks(site: Engine) -> None:
    with site.connect() as connection:
        assert connection.execute(text("SELECT oldest_schema FROM lrq_site")).scalar_one() >= "0017"
