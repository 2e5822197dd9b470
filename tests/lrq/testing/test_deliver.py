"""`deliver` calls a listener by the rules of a subscription, on both databases."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

import lrq
from lr_client import LRMessageWithDestinations, RoutingQueueListener, RoutingTableEntryMsg
from lrq.testing import Transmitted, deliver, deliver_rollback
from queues.database import leases
from queues.errors import (
    InvalidNameError,
    ListenerError,
    NotInitializedError,
    NotInTransactionError,
    PayloadTypeError,
    SchemaMismatchError,
    UsageError,
)
from queues.positions import Position
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, SNAPSHOT_SYNC


class Base(DeclarativeBase): ...


class Applied(Base):
    __tablename__ = "applied"
    payload: Mapped[bytes] = mapped_column(primary_key=True)


Way = Callable[[Session, Sequence[RoutingTableEntryMsg]], Any]


def keep(session: Session, entries: Sequence[RoutingTableEntryMsg]) -> bool:
    session.add_all(Applied(payload=entry.opaque_payload) for entry in entries)
    return True


class Apply(RoutingQueueListener):
    client_name = "policy"

    def __init__(self, way: Way = keep) -> None:
        self.way = way
        self.calls: list[str] = []
        self.entries: list[RoutingTableEntryMsg] = []

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        self.calls.append(f"log {source_id}")
        self.entries += entries
        return self.way(session, entries)

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        self.calls.append(f"snapshot {source_id}")
        self.entries += entries
        return self.way(session, entries)

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        self.calls.append(f"start {source_id}")
        session.execute(text("DELETE FROM applied"))

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
        self.calls.append(f"complete {source_id}")


class Undo(Apply):
    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        self.calls.append(f"rollback {source_id} to {position.seq}")
        session.execute(text("DELETE FROM applied"))


@pytest.fixture
def engine(site: Engine) -> Engine:
    Base.metadata.create_all(site)
    return site


def stored(engine: Engine) -> list[bytes]:
    with engine.connect() as connection:
        return sorted(bytes(row[0]) for row in connection.execute(text("SELECT payload FROM applied")))


def traces(engine: Engine) -> list[str]:
    """Return the names of all leases, as a delivery should leave none."""
    with engine.connect() as connection:
        return [row.name for row in leases.every_lease(connection)]


def test_the_changes_of_a_listener_are_committed_with_its_answer_true(engine: Engine):
    listener = Apply()
    assert deliver(engine, listener, [b"1", b"2"], source="lima") is True
    assert (stored(engine), listener.calls) == ([b"1", b"2"], ["log lima"])
    assert traces(engine) == []


def test_the_changes_of_a_listener_are_undone_with_its_answer_false(engine: Engine):
    def refuse(session: Session, entries: Sequence[Any]) -> bool:
        keep(session, entries)
        session.flush()
        return False

    assert deliver(engine, Apply(refuse), [b"1"]) is False
    assert (stored(engine), traces(engine)) == ([], [])


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), pytest.fail.Exception("failed")])
def test_an_exception_passes_through_and_the_changes_are_undone(engine: Engine, error: BaseException):
    def fail(session: Session, entries: Sequence[Any]) -> bool:
        keep(session, entries)
        session.flush()
        raise error

    with pytest.raises(type(error)) as raised:
        deliver(engine, Apply(fail), [b"1"])
    assert raised.value is error
    assert stored(engine) == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [(None, "returned NoneType: return True"), (1, "returned int: return True"), ("yes", "returned str: return True")],
)
def test_another_answer_is_refused_as_a_subscription_refuses_it(engine: Engine, answer: object, sentence: str):
    def odd(session: Session, entries: Sequence[Any]) -> object:
        keep(session, entries)
        return answer

    with pytest.raises(ListenerError, match=sentence):
        deliver(engine, Apply(odd), [b"1"])
    assert stored(engine) == []


def test_a_function_is_a_listener_whose_answer_none_means_true(engine: Engine):
    @lrq.listener("policy")
    def apply(session: Session, _source: str, entries: Sequence[Any]) -> bool | None:
        keep(session, entries)
        return False if entries[0].opaque_payload == b"refused" else None

    assert deliver(engine, apply, [b"1"]) is True
    assert deliver(engine, apply, [b"refused"]) is False
    assert deliver(engine, apply, [b"2"], snapshot=True) is True
    assert stored(engine) == [b"1", b"2"]
    with pytest.raises(UsageError, match="the listener is the function keep"):
        deliver(engine, keep, [b"1"])  # type: ignore[arg-type]


def test_sys_exit_is_refused_as_a_subscription_refuses_it(engine: Engine):
    with pytest.raises(ListenerError, match=r"called sys\.exit"):
        deliver(engine, Apply(lambda _session, _entries: exit(1)), [b"1"])


WAYS: dict[str, Callable[[Session], object]] = {
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "close": lambda session: session.close(),
    "commit of the connection": lambda session: session.connection().commit(),
    "COMMIT": lambda session: session.execute(text("COMMIT")),
    "ROLLBACK": lambda session: session.execute(text("ROLLBACK")),
    "commit of the driver": lambda session: session.connection().connection.dbapi_connection.commit(),  # type: ignore[union-attr]
}


def end_by(name: str) -> Way:
    def way(session: Session, entries: Sequence[Any]) -> bool:
        keep(session, entries)
        session.flush()
        WAYS[name](session)
        return True

    return way


@pytest.mark.parametrize("name", WAYS)
def test_a_listener_that_ends_its_transaction_is_refused(engine: Engine, name: str):
    is_committed = name in ("COMMIT", "commit of the driver")
    with pytest.raises(ListenerError) as raised:
        deliver(engine, Apply(end_by(name)), [b"1"])
    assert ("its changes before that are committed" in str(raised.value)) == is_committed
    assert (stored(engine), traces(engine)) == ([b"1"] if is_committed else [], [])
    assert deliver(engine, Apply(), [b"2"])


@pytest.mark.parametrize("name", WAYS)
def test_a_listener_that_ends_the_transaction_of_a_test_is_refused(engine: Engine, name: str):
    with engine.connect() as connection:
        outer = connection.begin()
        with pytest.raises(ListenerError, match="transaction"):
            deliver(connection, Apply(end_by(name)), [b"1"])
        outer.rollback()
    assert traces(engine) == []
    assert deliver(engine, Apply(), [b"2"])


def test_a_session_gets_the_changes_in_a_savepoint_and_commits_nothing(engine: Engine):
    with Session(engine) as session:
        session.add(Applied(payload=b"own"))
        assert deliver(session, Apply(), [b"1"])
        assert session.get(Applied, b"1") is not None
        assert not deliver(session, Apply(lambda session, entries: not keep(session, entries)), [b"2"])
        assert session.get(Applied, b"2") is None
        assert session.get(Applied, b"own") is not None
        session.rollback()
    assert (stored(engine), traces(engine)) == ([], [])


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_only_the_changes_of_a_listener_have_an_origin(engine: Engine):
    origins: list[str] = []

    def note(session: Session, _entries: Sequence[Any] = ()) -> bool:
        origins.append(session.execute(text("SELECT current_setting('lrq.origin')")).scalar_one())
        return True

    with Session(engine) as session:
        assert deliver(session, Apply(note), [b"1"], source="tokyo")
        note(session)
    assert origins == ["tokyo", ""]


def test_an_exception_leaves_the_transaction_of_a_test_usable(engine: Engine):
    def fail(session: Session, _entries: Sequence[Any]) -> bool:
        session.execute(text("SELECT * FROM nothing"))
        return True

    with engine.connect() as connection:
        outer = connection.begin()
        assert deliver(connection, Apply(), [b"1"])
        with pytest.raises(Exception, match="nothing"):
            deliver(connection, Apply(fail), [b"2"])
        with Session(bind=connection, join_transaction_mode="create_savepoint") as session:
            assert deliver(session, Apply(), [b"3"])
            assert [row.payload for row in session.query(Applied).order_by(Applied.payload)] == [b"1", b"3"]
            session.commit()
        outer.rollback()
    assert stored(engine) == []


def test_a_session_shows_the_listener_s_changes_to_objects_it_has_loaded(engine: Engine):
    with Session(engine) as session:
        session.add(Applied(payload=b"old"))
        session.flush()
        loaded = session.get(Applied, b"old")
        assert loaded is not None
        deliver(session, Apply(lambda session, _entries: bool(session.execute(text("DELETE FROM applied")))), [b"1"])
        assert session.get(Applied, b"old") is None


def test_a_scoped_session_works(engine: Engine):
    session = scoped_session(sessionmaker(engine))
    assert deliver(session, Apply(), [b"1"])
    session.remove()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_application_s_own_engine_works(engine: Engine):
    own = create_engine(engine.url)
    assert deliver(own, Apply(), [b"1"])
    with own.connect() as connection:
        outer = connection.begin()
        assert deliver(connection, Apply(), [b"2"])
        outer.rollback()
    own.dispose()
    assert stored(engine) == [b"1"]


def test_entries_have_the_envelope_of_one_source_transaction(engine: Engine):
    listener = Apply(lambda _session, _entries: True)
    transmitted = Transmitted("policy", ("tokyo",), b"3", "key 3", "east", {"a": "b"})
    message = LRMessageWithDestinations(b"4", ["tokyo"], "key 4")
    mapping = {"payload": b"5", "item_key": "key 5", "partition_key": "west", "headers": {"c": "d"}}
    entries = [b"1", (b"2", "key 2"), transmitted, message, mapping, bytearray(b"6")]
    deliver(engine, listener, entries, source="lima", client="audit", sequence=10)
    found = listener.entries
    assert [entry.opaque_payload for entry in found] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert [entry.item_key for entry in found] == ["", "key 2", "key 3", "key 4", "key 5", ""]
    assert [entry.sequence for entry in found] == list(range(10, 16))
    assert {(each.source_id, each.client_name, each.type, each.transaction) for each in found} == {
        ("lima", "audit", LOG_ENTRY_SYNC, 10)
    }
    assert [(each.partition_key, dict(each.headers)) for each in found if each.partition_key] == [
        ("east", {"a": "b"}),
        ("west", {"c": "d"}),
    ]
    assert all(entry.commit_time_us > 0 and entry.branch and not entry.sync_id for entry in found)


def test_a_snapshot_has_a_start_rows_and_a_completion(engine: Engine):
    listener = Apply()
    deliver(engine, listener, [b"old"])
    listener.entries.clear()
    entries = [b"1", {"payload": b"2", "headers": {"a": "b"}, "partition_key": "east"}]
    assert deliver(engine, listener, entries, "lima", snapshot=True) is True
    assert listener.calls == ["log paris", "start lima", "snapshot lima", "complete lima"]
    assert stored(engine) == [b"1", b"2"]
    found = listener.entries
    assert {(each.type, each.transaction, each.commit_time_us) for each in found} == {(SNAPSHOT_SYNC, 0, 0)}
    assert [(each.sequence, bool(each.sync_id)) for each in found] == [(1, True), (2, True)]
    assert [(each.partition_key, dict(each.headers)) for each in found] == [("", {}), ("", {})]


def test_a_snapshot_may_be_empty(engine: Engine):
    listener = Apply()
    assert deliver(engine, listener, [], snapshot=True)
    assert listener.calls == ["start paris", "complete paris"]


def test_a_refused_snapshot_does_not_complete(engine: Engine):
    listener = Apply(lambda _session, _entries: False)
    assert deliver(engine, listener, [b"1"], snapshot=True) is False
    assert listener.calls == ["start paris", "snapshot paris"]


def test_a_rollback_is_told_to_a_listener_that_can_undo(engine: Engine):
    listener = Undo()
    deliver(engine, listener, [b"1", b"2"])
    deliver_rollback(engine, listener, after=1, source="lima")
    assert (listener.calls[-1], stored(engine)) == ("rollback lima to 1", [])


def test_a_rollback_without_on_rollback_is_refused(engine: Engine):
    with pytest.raises(ListenerError, match="has no on_rollback"):
        deliver_rollback(engine, Apply(), after=1)


@pytest.mark.parametrize(
    ("entries", "error", "sentence"),
    [
        (b"1", UsageError, "deliver needs a list of entries, not bytes"),
        ({"payload": b"1"}, UsageError, "deliver needs a list of entries, not dict"),
        (1, UsageError, "deliver needs a list of entries, not int"),
        ([], UsageError, "at least one entry"),
        (["text"], PayloadTypeError, "the payload must be bytes, not str"),
        ([{"item_key": "a"}], PayloadTypeError, "the payload must be bytes, not NoneType"),
        ([{"payload": b"1", "key": "a"}], UsageError, "an entry has no key: write payload"),
        ([(b"1", "")], UsageError, "item_key must be a string"),
        ([{"payload": b"1", "headers": {"a": 1}}], UsageError, "the header 'a' must be a string, not int"),
    ],
)
def test_wrong_entries_are_named(engine: Engine, entries: Any, error: type[Exception], sentence: str):
    listener = Apply()
    with pytest.raises(error, match=sentence):
        deliver(engine, listener, entries)
    assert listener.calls == []


def test_wrong_listeners_targets_and_names_are_named(engine: Engine):
    with pytest.raises(UsageError, match="the listener is the class Apply"):
        deliver(engine, Apply, [b"1"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="deliver needs an engine"):
        deliver("sqlite:///paris.db", Apply(), [b"1"])  # type: ignore[arg-type]
    with pytest.raises(InvalidNameError, match="is not a valid site id"):
        deliver(engine, Apply(), [b"1"], source="a b")
    with pytest.raises(UsageError, match="sequence is 0"):
        deliver(engine, Apply(), [b"1"], sequence=0)


def test_an_engine_in_autocommit_is_refused(engine: Engine):
    with pytest.raises(NotInTransactionError, match="commits every statement by itself"):
        deliver(engine.execution_options(isolation_level="AUTOCOMMIT"), Apply(), [b"1"])


def test_tables_of_another_version_are_named(engine: Engine):
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = '0001'"))
    with pytest.raises(SchemaMismatchError, match="the tables have schema 0001"):
        deliver(engine, Apply(), [b"1"])
    with engine.connect() as connection, pytest.raises(SchemaMismatchError):
        deliver(connection, Apply(), [b"1"])


def test_a_database_without_tables_is_named(new_database: Callable[[], str]):
    engine = create_engine(new_database())
    with pytest.raises(NotInitializedError, match="run `lrq init`"):
        deliver(engine, Apply(), [b"1"])
    with engine.connect() as connection, pytest.raises(NotInitializedError, match="run `lrq init`"):
        deliver(connection, Apply(), [b"1"])
    engine.dispose()


def test_an_entry_of_another_client_is_refused_before_the_call(site: Engine):
    listener = Apply()
    sent = [Transmitted("other", ("tokyo",), b"x"), Transmitted("policy", ("tokyo",), b"x")]
    with pytest.raises(UsageError, match=r"client 'other' does not come to a listener of 'policy': .*client='policy'"):
        deliver(site, listener, sent)
    assert listener.calls == []
    assert deliver(site, Apply(lambda session, entries: True), sent[:1], client="other")
