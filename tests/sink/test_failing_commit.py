"""A commit that fails at the sink: the frame is refused, not acknowledged, and stored once when it comes again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

import queues
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import Contents, Conversation, accepted, talk
from tests.sink.frames import FIRST, SECOND, begin, chunk, numbered, request

#: Statements whose only effect is that the commit fails: each row that is inserted breaks a rule checked there.
_FAIL = {
    "sqlite": [
        "CREATE TABLE no_parents (id INTEGER PRIMARY KEY)",
        "CREATE TABLE orphans (id INTEGER REFERENCES no_parents (id) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TRIGGER fail AFTER INSERT ON {table} BEGIN INSERT INTO orphans VALUES (1); END",
    ],
    "postgresql": [
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no commit today'; END $$",
        "CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION fail()",
    ],
}
_REPAIR = {
    "sqlite": ["DROP TRIGGER fail", "DROP TABLE orphans", "DROP TABLE no_parents"],
    "postgresql": ["DROP TRIGGER fail ON {table}", "DROP FUNCTION fail"],
}


@contextmanager
def failing_commits(engine: Engine, table: str) -> Iterator[None]:
    """Let every commit fail that adds a row to *table*; the statements before the commit succeed."""

    def execute(statements: list[str]) -> None:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement.format(table=table)))

    execute(_FAIL[engine.dialect.name])
    try:
        yield
    finally:
        execute(_REPAIR[engine.dialect.name])


@pytest.fixture
def fail(engine: Engine) -> Iterator[Callable[[str], ExitStack]]:
    """Give a function that lets commits fail until its result is closed, at the latest until the test ends."""
    with ExitStack() as still:

        def begin_to(table: str) -> ExitStack:
            begun = still.enter_context(ExitStack())
            begun.enter_context(failing_commits(engine, table))
            return begun

        yield begin_to


@pytest.fixture
def writer(engine: Engine) -> Iterator[Callable[[], SinkWriter]]:
    """Give a function that makes a writer on connections that check references (SQLite checks none by default)."""
    own = queues.create_engine(engine.url)
    if engine.dialect.name == "sqlite":

        @event.listens_for(own, "connect")
        def check(connection: Any, _record: object) -> None:
            connection.execute("PRAGMA foreign_keys = ON")

    yield lambda: SinkWriter(own, site_id("tokyo"))
    own.dispose()


def test_the_first_frame_of_a_stream_is_refused_when_its_commit_fails(writer, contents: Contents, fail):
    accepted(talk(writer(), FIRST))
    before = contents.marks()
    failing = fail("lrq_receive_blocks")
    (answer,) = talk(writer(), SECOND)
    assert answer.refusal.kind == pb.Refusal.TRANSIENT
    assert not answer.HasField("received")
    failing.close()
    assert contents.log() == list(enumerate(numbered(1, 3), start=1))
    assert (contents.marks().seq, contents.marks().boundary_seq) == (before.seq, before.boundary_seq)


def test_a_later_frame_of_a_stream_is_refused_when_its_commit_fails(writer, contents: Contents, fail):
    sink = writer()
    sink.negotiate(request())
    stream = Conversation(sink)
    assert stream.say(FIRST).received.seq == 3
    failing = fail("lrq_receive_blocks")
    answer = stream.say(SECOND)
    assert answer.refusal.kind == pb.Refusal.TRANSIENT
    assert not answer.HasField("received")
    stream.hang_up()
    failing.close()
    assert contents.log() == list(enumerate(numbered(1, 3), start=1))
    assert contents.marks().seq == 3


def test_the_refused_frame_is_stored_once_when_commits_succeed_again(writer, contents: Contents, fail):
    accepted(talk(writer(), FIRST))
    failing = fail("lrq_receive_blocks")
    talk(writer(), SECOND)
    failing.close()
    sink = writer()
    assert sink.negotiate(request()).received.seq == 3
    assert accepted(talk(sink, SECOND, SECOND)).received.seq == 5
    assert contents.log() == list(enumerate(numbered(1, 5), start=1))


def test_a_chunk_of_a_snapshot_is_refused_when_its_commit_fails(writer, contents: Contents, fail):
    accepted(talk(writer(), begin("s1"), chunk("s1", 1, numbered(1, 2))))
    failing = fail("lrq_receive_snapshot_blocks")
    (answer,) = talk(writer(), chunk("s1", 3, numbered(3, 4)))
    assert answer.refusal.kind == pb.Refusal.TRANSIENT
    failing.close()
    assert [row for _, row, _ in contents.staged()] == [1, 2]
    sink = writer()
    assert sink.negotiate(request()).staging.rows == 2
    assert accepted(talk(sink, chunk("s1", 3, numbered(3, 4)))).staging.rows == 4
