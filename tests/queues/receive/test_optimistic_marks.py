"""Marks are replaced without a lock: one message to PostgreSQL, which commits only if the marks are as expected."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, create_engine, exc, func, insert, select, update

from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks, receive_headers, receive_marks
from queues.database.transactions import writing
from queues.names import client_name, site_id
from queues.positions import Header, Position
from queues.receive import entries, log_blocks, writer_marks
from queues.receive.consumer_marks import NOWHERE
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState
from queues.receive.optimistic_marks import ExpectedMarks, StaleMarks
from queues.receive.writer_marks import LockedMarks, Stored

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

POLICY, PARIS = client_name("policy"), site_id("paris")
BLOCK = NewBlocks([4], [1], [3], [3], [71], [b"a block of entry 4"])
HEADER = Header("b1", 4, 77, "id/4")
BEFORE = ReceiveState(generation=1, received=Position("b1", 3), boundary_seq=3)
AFTER = replace(BEFORE, received=Position("b1", 4), boundary_seq=4)


@pytest.fixture(params=["one message", "no preparing"])
def engine(request: pytest.FixtureRequest, site: Engine) -> Iterator[Engine]:
    """The database, with and without prepared statements: without them each statement is a message."""
    options = {"connect_args": {"prepare_threshold": None}} if request.param == "no preparing" else {}
    engine = create_engine(site.url, **options)
    yield engine
    engine.dispose()


@pytest.fixture
def stored(engine: Engine) -> Stored:
    """A queue that has received three entries."""
    with writing(engine) as connection:
        queue_id = writer_marks.register(connection, POLICY, PARIS, now_us=1)
        return LockedMarks(Stored(queue_id, 0, ReceiveState(), 0, undoes=False)).save(connection, BEFORE, 1).stored


def save(connection: Connection, expected: Stored, *, with_header: bool = False) -> Stored:
    changes = entries.add_headers(connection, expected.queue_id, [HEADER], version=1).statements if with_header else ()
    return ExpectedMarks(expected).save(connection, AFTER, now_us=2, new=BLOCK, changes=changes, last=True).stored


def contents(engine: Engine) -> tuple[int, int, int]:
    """Return the version, the position and the number of log entries of the only queue."""
    count = select(func.count()).select_from(receive_blocks).scalar_subquery()
    with engine.connect() as connection:
        return tuple(connection.execute(select(receive_marks.c.version, receive_marks.c.seq, count)).one())


def headers(engine: Engine) -> list[tuple[int, Header]]:
    with engine.connect() as connection:
        columns = (receive_headers.c[name] for name in ("queue_id", *Header._fields))
        return [(queue_id, Header(*header)) for queue_id, *header in connection.execute(select(*columns))]


def test_marks_a_block_and_its_header_are_stored_together(engine, stored):
    with writing(engine) as connection:
        saved = save(connection, stored, with_header=True)
    assert saved == stored._replace(version=2, marks=AFTER)
    assert contents(engine) == (2, 4, 1)
    assert headers(engine) == [(stored.queue_id, HEADER)]
    with engine.connect() as connection:
        (found,) = log_blocks.next_blocks(connection, stored.queue_id, 3, 4)
    assert list(found) == [values[0] for values in BLOCK]


def test_a_header_may_come_with_further_changes(engine, stored):
    with writing(engine) as connection:
        changes = entries.add_headers(connection, stored.queue_id, [HEADER], version=64).statements
        forgotten = entries.forgetting_headers_before(stored.queue_id, 5)
        ExpectedMarks(stored).save(connection, AFTER, now_us=2, new=BLOCK, changes=[*changes, forgotten], last=True)
    assert contents(engine) == (2, 4, 1)
    assert headers(engine) == []


def test_expected_marks_are_replaced_with_the_entries(engine, stored):
    with writing(engine) as connection:
        saved = save(connection, stored)
    assert contents(engine) == (2, 4, 1)
    assert saved == stored._replace(version=2, marks=AFTER)


def test_saved_marks_return_the_position_of_the_subscriber(engine, stored):
    row = {"queue_id": stored.queue_id, "version": 0, "generation": 0, "phase": "log", "sync_id": "", "row_no": 0}
    row |= {"branch": "b1", "seq": 2, "applied_total": 2, "updated_us": 1, "undoes": False, "back_seq": NOWHERE}
    with writing(engine) as connection:
        connection.execute(insert(consumers).values(row))
    with writing(engine) as connection:
        assert save(connection, stored).applied_seq == 2


@pytest.mark.parametrize(
    "other",
    [
        lambda stored: stored._replace(version=0),
        lambda stored: stored._replace(marks=replace(stored.marks, generation=2)),
        lambda stored: stored._replace(marks=replace(stored.marks, received=Position("b1", 2))),
        lambda stored: stored._replace(queue_id=99),
    ],
    ids=["version", "generation", "position", "queue"],
)
@pytest.mark.parametrize("with_header", [False, True], ids=["", "with a header"])
def test_no_entry_is_stored_if_the_marks_differ(engine, stored, other: Callable[[Stored], Stored], with_header: bool):
    with pytest.raises(StaleMarks), writing(engine) as connection:
        save(connection, other(stored), with_header=with_header)
    assert contents(engine) == (1, 3, 0)
    assert headers(engine) == []


def test_the_error_of_postgresql_says_that_the_marks_are_stale(engine, stored):
    with pytest.raises(StaleMarks) as raised, writing(engine) as connection:
        save(connection, stored._replace(version=0))
    assert "another writer has replaced these marks" in str(raised.value.__cause__)


def test_another_error_of_the_message_is_raised_unchanged(engine, stored):
    with writing(engine) as connection:
        connection.execute(update(receive_marks).values(branch="b1"))
        save(connection, stored)
    expected = ExpectedMarks(stored._replace(version=2, marks=AFTER))
    with pytest.raises(exc.IntegrityError), writing(engine) as connection:
        expected.save(connection, AFTER, now_us=3, new=BLOCK, last=True)
    with pytest.raises(exc.DataError), writing(engine) as connection:
        expected.save(connection, AFTER, now_us=2**70, last=True)
    assert contents(engine) == (2, 4, 1)
