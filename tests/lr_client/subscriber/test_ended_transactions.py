"""A listener that ends its transaction loses no entries, and its error explains the repeated entries."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import NamedTuple

import pytest
from sqlalchemy import Engine, create_engine, exc, text
from sqlalchemy.orm import Session

from queues.database.transactions import writing
from queues.errors import ListenerError, StoreUnavailableError
from queues.receive.parked import parked, retry_parked
from tests.lr_client.subscriber.applying import AfterEach, Apply, Undo, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

pytestmark = pytest.mark.long

SENTENCE = "the listener ended the transaction that lrq gave it"
ADVICE = "leave COMMIT and ROLLBACK to lrq, use session.begin_nested() for parts"


# --- the ways to end a transaction ------------------------------------------------------------------------------


def say(*statements: str) -> Callable[[Session], None]:
    def end(session: Session) -> None:
        for statement in statements:
            session.execute(text(statement))

    return end


def fail_at(statement: str) -> Callable[[Session], None]:
    def end(session: Session) -> None:
        with pytest.raises(exc.IntegrityError):
            session.execute(text(statement))

    return end


def driver_rollback(session: Session) -> None:
    session.connection().connection.dbapi_connection.rollback()


def driver_commit(session: Session) -> None:
    session.connection().connection.dbapi_connection.commit()


class Way(NamedTuple):
    """A way to end a transaction, on one dialect or all."""

    name: str
    end: Callable[[Session], None]
    commits: bool = False
    only: str = ""


WAYS = [
    Way("text ROLLBACK", say("ROLLBACK")),
    Way("text COMMIT", say("COMMIT"), commits=True),
    Way("driver rollback", driver_rollback),
    Way("driver commit", driver_commit, commits=True),
    Way("ROLLBACK and BEGIN", say("ROLLBACK", "BEGIN")),
    Way("COMMIT and BEGIN", say("COMMIT", "BEGIN"), commits=True),
    Way("OR ROLLBACK", fail_at("INSERT OR ROLLBACK INTO taken VALUES (1)"), only="sqlite"),
    Way("RAISE(ROLLBACK)", fail_at("DELETE FROM taken"), only="sqlite"),
    Way("ROLLBACK AND CHAIN", say("ROLLBACK AND CHAIN"), only="postgresql"),
    Way("COMMIT AND CHAIN", say("COMMIT AND CHAIN"), commits=True, only="postgresql"),
]


@pytest.fixture(params=WAYS, ids=[way.name for way in WAYS])
def way(request: pytest.FixtureRequest, dialect: str, sink: Engine) -> Way:
    found: Way = request.param
    if found.only not in ("", dialect):
        pytest.skip(f"only {found.only} has it")
    if found.only == "sqlite":
        with writing(sink) as connection:
            connection.execute(text("CREATE TABLE taken (id integer PRIMARY KEY)"))
            connection.execute(text("INSERT INTO taken VALUES (1)"))
            rule = "CREATE TRIGGER kept BEFORE DELETE ON taken BEGIN SELECT RAISE(ROLLBACK, 'kept'); END"
            connection.execute(text(rule))
    return found


@pytest.fixture(params=WAYS[:2], ids=[way.name for way in WAYS[:2]])
def plain_way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


# --- a listener that ends its transaction once ------------------------------------------------------------------


def return_true() -> bool:
    return True


def return_false() -> bool:
    return False


def crash() -> bool:
    raise ValueError("cannot apply this")


OUTCOMES = pytest.mark.parametrize("outcome", [return_true, return_false, crash])
CALLBACK_OUTCOMES = pytest.mark.parametrize("outcome", [return_true, crash])


class Meddler(AfterEach):
    """Ends its transaction in the first call of one kind, after its changes; later calls are normal."""

    def __init__(self, kind: str, end: Callable[[Session], None], outcome: Callable[[], bool]) -> None:
        super().__init__()
        self.kind = kind
        self.end = end
        self.outcome = outcome
        self.meddles = True

    def after(self, kind: str, session: Session) -> bool:
        if kind != self.kind or not self.meddles:
            return True
        self.meddles = False
        self.end(session)
        return self.outcome()


def assert_told(listener: Apply, *, commits: bool, outcome: Callable[[], bool]) -> None:
    """Check that the failed call was reported once, with the fate of its changes and the listener's own error."""
    # Under load the database may also have closed a connection.
    [(source, error)] = [told for told in listener.errors if not isinstance(told[1], StoreUnavailableError)]
    assert source == "tokyo"
    assert isinstance(error, ListenerError)
    assert SENTENCE in str(error)
    assert ADVICE in str(error)
    assert ("are committed" in str(error), "are not committed" in str(error)) == (commits, not commits)
    if outcome is crash:
        assert str(error).endswith("; the listener raised ValueError")
        assert isinstance(error.__cause__, ValueError)
    elif outcome is return_false:
        assert "returned False" in str(error.__cause__)


# --- log entries ------------------------------------------------------------------------------------------------


@OUTCOMES
def test_log_entries_are_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, way: Way, outcome: Callable[[], bool]
) -> None:
    listener = Meddler("log", way.end, outcome)
    tokyo.tick([b"e1"], [b"e2"], [b"e3"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    tokyo.tick([b"e4"])
    eventually(lambda: tokyo.left == 0)
    kept = ["e1", "e2", "e3"] if way.commits else []
    assert story(sink) == [*kept, "e1", "e2", "e3", "e4"]
    assert_told(listener, commits=way.commits, outcome=outcome)


@OUTCOMES
def test_log_entries_are_repeated_on_an_engine_of_the_application(
    sink: Engine, tokyo: Arrivals, follow: Follow, way: Way, outcome: Callable[[], bool]
) -> None:
    engine = create_engine(sink.url)
    listener = Meddler("log", way.end, outcome)
    tokyo.tick([b"e1"], [b"e2"], [b"e3"])
    subscription = follow(listener, engine)
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    engine.dispose()
    kept = ["e1", "e2", "e3"] if way.commits else []
    assert story(sink) == [*kept, "e1", "e2", "e3"]
    assert_told(listener, commits=way.commits, outcome=outcome)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_log_entries_are_repeated_at_a_stricter_isolation_level(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow, plain_way: Way, level: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite is always serializable")
    engine = create_engine(sink.url, isolation_level=level)
    listener = Meddler("log", plain_way.end, return_true)
    tokyo.tick([b"e1"], [b"e2"])
    subscription = follow(listener, engine)
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    engine.dispose()
    assert story(sink) == [*(["e1", "e2"] if plain_way.commits else []), "e1", "e2"]
    assert SENTENCE in str(listener.errors[0][1])


def test_changes_after_the_end_do_not_consume_entries(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way
) -> None:
    def end_and_go_on(session: Session) -> None:
        plain_way.end(session)
        session.execute(text("UPDATE applied SET what = what"))

    listener = Meddler("log", end_and_go_on, return_true)
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink)[-2:] == ["e1", "e2"]
    assert_told(listener, commits=plain_way.commits, outcome=return_true)


@pytest.mark.parametrize("swallows", [True, False])
def test_a_failing_statement_after_the_end_does_not_hide_the_end(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way, swallows: bool
) -> None:
    def end_and_fail(session: Session) -> None:
        plain_way.end(session)
        with suppress(exc.DBAPIError) if swallows else nullcontext():
            session.execute(text("SELECT * FROM missing"))

    listener = Meddler("log", end_and_fail, return_true)
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink)[-2:] == ["e1", "e2"]
    [(_, error)] = listener.errors
    assert SENTENCE in str(error)
    assert ("the listener raised" in str(error)) is not swallows


def test_a_listener_that_always_ends_its_transaction_is_told_each_time_and_loses_no_entry(
    tokyo: Arrivals, follow: Follow, plain_way: Way
) -> None:
    class Stubborn(Meddler):
        meddles = property(lambda self: len(self.errors) < 5, lambda self, value: None)

    listener = Stubborn("log", plain_way.end, return_true)
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    eventually(lambda: len(listener.errors) == 5)
    eventually(lambda: tokyo.left == 0)
    assert len(listener.calls) == 5 + 2
    assert all(SENTENCE in str(error) for _, error in listener.errors)


def test_entries_whose_transaction_always_ends_are_parked(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way
) -> None:
    class Stubborn(Meddler):
        meddles = property(lambda self: True, lambda self, value: None)

    tokyo.tick([b"e1"])
    follow(Stubborn("log", plain_way.end, return_true), on_failure="park", max_tries=2)
    eventually(lambda: tokyo.left == 0)
    [aside] = parked(sink)
    assert (aside.sequence, aside.tries) == (1, 2)
    assert SENTENCE in aside.error


# --- snapshots, rollbacks, parked transactions ------------------------------------------------------------------


@OUTCOMES
def test_snapshot_rows_are_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way, outcome: Callable[[], bool]
) -> None:
    listener = Meddler("rows", plain_way.end, outcome)
    tokyo.snapshot("s1", [b"r1", b"r2", b"r3"])
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    kept = ["r1", "r2", "r3"] if plain_way.commits else []
    assert story(sink) == ["<start>", *kept, "r1", "r2", "r3", "<complete>", "e1"]
    assert_told(listener, commits=plain_way.commits, outcome=outcome)


@CALLBACK_OUTCOMES
@pytest.mark.parametrize("kind", ["start", "complete"])
def test_the_callbacks_of_a_snapshot_are_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way, kind: str, outcome: Callable[[], bool]
) -> None:
    listener = Meddler(kind, plain_way.end, outcome)
    tokyo.snapshot("s1", [b"r1"])
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    expected = ["<start>", "r1", "<complete>", "e1"]
    if plain_way.commits:
        expected.insert(expected.index(f"<{kind}>"), f"<{kind}>")
    assert story(sink) == expected
    assert_told(listener, commits=plain_way.commits, outcome=outcome)


@CALLBACK_OUTCOMES
def test_a_rollback_is_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way, outcome: Callable[[], bool]
) -> None:
    with follow(Undo()):
        tokyo.tick([b"e1"], [b"e2"])
        eventually(lambda: tokyo.left == 0)
    tokyo.go_back(1)
    tokyo.tick([b"other"])
    listener = Meddler("rollback", plain_way.end, outcome)
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    kept = ["<back to 1>"] if plain_way.commits else []
    assert story(sink) == ["e1", "e2", *kept, "<back to 1>", "other"]
    assert_told(listener, commits=plain_way.commits, outcome=outcome)


def test_parked_transactions_are_kept_until_a_repeated_rollback_succeeds(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way
) -> None:
    with follow(Apply(lambda entry: False if entry.opaque_payload == b"bad" else None), on_failure="park", max_tries=1):
        tokyo.tick([b"e1"], [b"bad"], [b"e3"])
        eventually(lambda: tokyo.left == 0)
    with follow(Undo()):  # from here on the listener is one that undoes
        tokyo.tick([b"e4"])
        eventually(lambda: tokyo.left == 0)
    tokyo.go_back(1)
    there: list[int] = []

    class Counting(Meddler):
        def on_rollback(self, session, source_id, position):
            there.append(len(parked(sink)))
            super().on_rollback(session, source_id, position)

    follow(Counting("rollback", plain_way.end, return_true))
    eventually(lambda: parked(sink) == [])
    assert there == [1, 1]


@OUTCOMES
def test_a_parked_transaction_stays_parked(
    sink: Engine, tokyo: Arrivals, follow: Follow, plain_way: Way, outcome: Callable[[], bool]
) -> None:
    tokyo.tick([b"a1"], [b"b1", b"b2"], [b"c1"])
    with follow(Apply(lambda entry: False if entry.opaque_payload == b"b2" else None), on_failure="park", max_tries=1):
        eventually(lambda: tokyo.left == 0)
    [aside] = parked(sink)
    listener = Meddler("log", plain_way.end, outcome)
    retry_parked(sink, aside.id)
    follow(listener)
    eventually(lambda: listener.errors and not parked(sink)[0].retrying)
    assert SENTENCE in parked(sink)[0].error
    retry_parked(sink, aside.id)
    eventually(lambda: parked(sink) == [])
    kept = ["b1", "b2"] if plain_way.commits else []
    assert story(sink) == ["a1", "c1", *kept, "b1", "b2"]
    assert_told(listener, commits=plain_way.commits, outcome=outcome)


def test_a_parked_transaction_can_be_retried_while_a_snapshot_replaces_a_rollback(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    class Picky(Undo):
        def __init__(self) -> None:
            super().__init__(lambda entry: False if entry.opaque_payload == b"bad" else None)

    with follow(Picky(), on_failure="park", max_tries=1):
        tokyo.tick([b"bad"], [b"e2"], [b"e3"])
        eventually(lambda: tokyo.left == 0)
    tokyo.go_back(2)
    tokyo.snapshot("s1", [b"row"], base=3)
    retry_parked(sink, parked(sink)[0].id)
    follow(Undo())
    eventually(lambda: story(sink) == ["e2", "e3", "bad", "<start>", "row", "<complete>"])


# --- errors that are not an end ---------------------------------------------------------------------------------


def test_an_error_inside_a_savepoint_of_the_listener_does_not_end_the_transaction(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    class Careful(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            with suppress(exc.DBAPIError), session.begin_nested():
                session.execute(text("SELECT * FROM missing"))
            session.execute(text("SAVEPOINT mine"))
            session.execute(text("ROLLBACK TO SAVEPOINT mine"))
            session.begin_nested()  # left open
            return super().process_updates_in_log_entry_sync(session, source_id, entries)

    listener = Careful()
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
    assert listener.errors == []


def test_a_full_disk_is_not_reported_as_an_ended_transaction(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow
) -> None:
    if dialect != "sqlite":
        pytest.skip("SQLite rolls back by itself when the disk is full")
    with writing(sink) as connection:
        connection.execute(text("CREATE TABLE big (it BLOB)"))

    def fill(session: Session) -> None:
        pages = session.execute(text("PRAGMA page_count")).scalar_one()
        session.execute(text(f"PRAGMA max_page_count = {pages + 1}"))
        try:
            session.execute(text("INSERT INTO big VALUES (zeroblob(10000000))"))
        finally:
            session.execute(text(f"PRAGMA max_page_count = {2**30}"))

    listener = Meddler("log", fill, return_true)
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    [(_, error)] = listener.errors
    assert isinstance(error, StoreUnavailableError)
    assert story(sink) == ["e1"]
