"""A listener with a bulk form gets the rows of a snapshot as columns, and everything else as before."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session

from lr_client import ColumnBatch, RoutingTableEntryMsg, listener
from lrq.testing import deliver
from queues.errors import UsageError
from queues.receive.parked import parked, retry_parked
from tests.lr_client.subscriber.applying import Apply, applied, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

Check = Callable[[ColumnBatch], object]


class Bulk(Apply):
    """Writes the rows of each call with one statement; *check* can make the listener refuse."""

    def __init__(self, check: Check = lambda _columns: None) -> None:
        super().__init__()
        self.batches: list[ColumnBatch] = []
        self._check = check

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> object:
        self.batches.append(columns)
        load(session, source_id, columns)
        answer = self._check(columns)
        return True if answer is None else answer


def load(session: Session, source_id: str, columns: ColumnBatch) -> None:
    """Write all rows: by COPY on PostgreSQL, by `executemany` on SQLite."""
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        statement = "COPY applied (source, what, payload) FROM STDIN"
        with connection.connection.cursor().copy(statement) as copy:
            for payload in columns.payloads:
                copy.write_row((source_id, "snapshot", payload))
    else:
        rows = [{"source": source_id, "what": "snapshot", "payload": payload} for payload in columns.payloads]
        session.execute(insert(applied), rows)


def refuse(payload: bytes) -> Check:
    """Return a check that fails each call with this row."""

    def check(columns: ColumnBatch) -> None:
        if payload in columns.payloads:
            raise ValueError("stuck")

    return check


def test_the_rows_of_a_snapshot_come_as_columns_and_the_log_as_entries(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    bulk = Bulk()
    tokyo.snapshot("s1", payloads("r", 25))
    tokyo.tick([b"e1"])
    follow(bulk, max_batch_entries=10)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["<start>", *texts("r", 25), "<complete>", "e1"]
    assert [(batch.sync_id, batch.first_sequence, len(batch)) for batch in bulk.batches] == [
        ("s1", 1, 10),
        ("s1", 11, 10),
        ("s1", 21, 5),
    ]
    assert [[entry.opaque_payload for entry in call] for call in bulk.calls] == [[b"e1"]]


def test_the_bytes_of_a_call_are_limited_within_a_block_too(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    bulk = Bulk()
    tokyo.snapshot("s1", [b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 50, b"", b"e" * 10])
    follow(bulk, max_batch_bytes=30)
    eventually(lambda: tokyo.left == 0)
    assert [len(batch) for batch in bulk.batches] == [3, 1, 2]


@pytest.mark.parametrize(
    "fails", [refuse(b"r3"), lambda columns: b"r3" not in columns.payloads], ids=["error", "False"]
)
def test_a_refused_row_is_parked_alone_and_its_retry_comes_as_columns(
    sink: Engine, tokyo: Arrivals, follow: Follow, fails: Check
) -> None:
    tokyo.snapshot("s1", payloads("r", 5))
    subscription = follow(Bulk(fails), on_failure="park", max_tries=2)
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "r1", "r2", "r4", "r5", "<complete>"]
    subscription.close()
    [aside] = parked(sink)
    retry_parked(sink, aside.id)
    bulk = Bulk()
    follow(bulk)
    eventually(lambda: parked(sink) == [])
    assert [(list(batch.payloads), batch.first_sequence, batch.sync_id) for batch in bulk.batches] == [
        ([b"r3"], 3, "s1")
    ]


def test_item_keys_stand_beside_their_payloads(sink: Engine) -> None:
    bulk = Bulk()
    assert deliver(sink, bulk, [(b"1", "a"), b"2"], snapshot=True)
    assert [(list(batch.payloads), list(batch.item_keys)) for batch in bulk.batches] == [([b"1", b"2"], ["a", None])]


def test_rows_of_a_replaced_snapshot_are_undone_in_bulk_too(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer: the newer snapshot comes before or after, never in the middle")

    def replace_once(columns: ColumnBatch) -> None:
        if columns.sync_id == "s1":
            tokyo.snapshot("s2", payloads("q", 3))

    tokyo.snapshot("s1", payloads("r", 3))
    follow(Bulk(replace_once))
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "<start>", *texts("q", 3), "<complete>"]


def test_a_function_may_take_columns(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    @listener("policy")
    def apply(session: Session, source_id: str, entries: list[RoutingTableEntryMsg]) -> None:
        rows = [{"source": source_id, "what": "log", "payload": entry.opaque_payload} for entry in entries]
        session.execute(insert(applied), rows)

    @apply.snapshot_columns
    def in_bulk(session: Session, source_id: str, columns: ColumnBatch) -> None:
        load(session, source_id, columns)

    tokyo.snapshot("s1", payloads("r", 3))
    tokyo.tick([b"e1"])
    follow(apply)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["r1", "r2", "r3", "e1"]


def test_a_bulk_form_with_other_parameters_is_refused(sink: Engine, follow: Follow) -> None:
    class Wrong(Apply):
        def process_snapshot_columns(self, session: Session) -> bool:  # type: ignore[override]
            return True

    with pytest.raises(UsageError, match=r"Wrong.process_snapshot_columns has the parameters"):
        follow(Wrong())
