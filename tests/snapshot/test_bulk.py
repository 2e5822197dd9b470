"""Many rows at a time: by the fastest way in, and the same ones out; nothing follows what is lost."""

import pytest
from sqlalchemy import Engine, delete, exc, select

from queues import dialects
from queues.errors import SnapshotFailedError
from queues.snapshots.writer import PartWriter, WriteLimits
from queues.tables import snapshot_entries as entries
from queues.transactions import reading, writing

_COLUMNS = ("sync_id", "part", "attempt", "ord", "item_key", "payload")


def test_what_goes_in_comes_out(site: Engine) -> None:
    rows = [
        ("é", 2**31 - 1, 2**63 - 1, 1, None, b""),
        ("é", 2**31 - 1, 2**63 - 1, 2, "", b"\x00\xff"),
        ("é", -(2**31), -(2**63), 3, "ключ", bytes(100_000)),
    ]
    with writing(site) as connection:
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, iter(rows))
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, iter(()))
    with reading(site) as connection:
        wanted = select(*(entries.c[name] for name in _COLUMNS)).where(entries.c.ord > 0).order_by(entries.c.ord)
        found = dialects.of(connection).bulk_select(connection, wanted)
    assert [(*row[:-1], bytes(row[-1])) for row in found] == rows


def test_errors_look_like_those_of_other_statements(site: Engine) -> None:
    row = ("s", 0, 0, 1, None, b"")
    with pytest.raises(exc.IntegrityError), writing(site) as connection:
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, [row, row])


def test_rows_taken_together_are_the_rows_taken_one_by_one(site: Engine) -> None:
    rows = [(b"%d" % number * (number % 40), str(number) if number % 3 else "") for number in range(100)]
    limits = WriteLimits(batch_rows=30, batch_bytes=1_000)
    writers = [
        PartWriter(site, name, part=1, attempt=2, limits=limits, in_batch=lambda *_: None) for name in ("one", "many")
    ]
    for start in range(0, 100, 7):
        for payload, key in rows[start : start + 7]:
            writers[0].add(payload, key)
        writers[1].add_many(*zip(*rows[start : start + 7], strict=True))
    for writer in writers:
        writer.flush()
    assert writers[0].written == writers[1].written
    with reading(site) as connection:
        one, many = (
            connection.execute(select(entries.c.ord, entries.c.item_key, entries.c.payload).where(own)).all()
            for own in (entries.c.sync_id == "one", entries.c.sync_id == "many")
        )
    assert one == many
    assert [row.payload for row in one] == [payload for payload, _ in rows]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_nothing_follows_a_batch_that_a_crash_took(site: Engine) -> None:
    limits = WriteLimits(batch_rows=2, patience=0.0)
    writer = PartWriter(site, "s", part=1, attempt=2, limits=limits, in_batch=lambda *_: None)
    writer.add_many([b"1", b"2"], [None, None])
    with writing(site) as connection:
        connection.execute(delete(entries).where(entries.c.sync_id == "s"))
    with pytest.raises(SnapshotFailedError, match="rows up to 2 of part 1 are lost"):
        writer.add_many([b"3", b"4"], [None, None])
