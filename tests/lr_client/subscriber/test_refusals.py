"""Refused entries are repeated in order, no entry overtakes them, and `park` sets them aside."""

import pytest
from sqlalchemy import Engine, select, text

from queues.database import tables
from queues.database.transactions import reading, writing
from queues.errors import ListenerError, UsageError
from queues.receive.failures import Failure, last
from queues.receive.parked import discard_parked, parked, parked_trace, retry_parked
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, OnEntry, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


class Trouble:
    """Refuses entries whose payload is *payload*, the first *times* times."""

    def __init__(self, payload: bytes, times: float, refuse: OnEntry) -> None:
        self.payload = payload
        self.left = times
        self.refuse = refuse
        self.met = 0

    def __call__(self, entry: RoutingTableEntryMsg) -> object:
        if entry.opaque_payload != self.payload or self.left <= 0:
            return None
        self.left -= 1
        self.met += 1
        return self.refuse(entry)


def say_false(_: RoutingTableEntryMsg) -> bool:
    return False


def fail(_: RoutingTableEntryMsg) -> None:
    raise ValueError("cannot apply this")


FOREVER = float("inf")
REFUSALS = pytest.mark.parametrize("refuse", [say_false, fail])


def failures(engine: Engine) -> list[tuple[int, int, str]]:
    table = tables.consumers.consumer_failures
    with reading(engine) as connection:
        return [tuple(row) for row in connection.execute(select(table.c.seq, table.c.tries, table.c.error))]


@REFUSALS
def test_a_refused_entry_is_repeated_and_no_entry_overtakes_it(
    sink: Engine, tokyo: Arrivals, follow: Follow, refuse: OnEntry
) -> None:
    trouble = Trouble(b"e3", 4, refuse)
    tokyo.tick(*[[payload] for payload in payloads("e", 10)])
    follow(Apply(trouble))
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 10)
    assert trouble.met == 4


@REFUSALS
def test_the_changes_of_a_refused_entry_are_undone_and_later_entries_wait(
    sink: Engine, tokyo: Arrivals, follow: Follow, refuse: OnEntry
) -> None:
    trouble = Trouble(b"e3", FOREVER, refuse)
    tokyo.tick(*[[payload] for payload in payloads("e", 10)])
    follow(Apply(trouble), max_tries=2)
    eventually(lambda: trouble.met >= 5)
    assert story(sink) == ["e1", "e2"]
    assert tokyo.left == 8
    assert parked(sink) == []
    trouble.left = 0
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 10)


def test_a_failure_is_stored_while_it_lasts_and_reported_to_the_listener(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    trouble = Trouble(b"e2", FOREVER, fail)
    listener = Apply(trouble)
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    seq, _, error = eventually(lambda: [f for f in failures(sink) if f[1] >= 2])[0]
    assert (seq, error) == (2, "ValueError: cannot apply this")
    assert {(source, str(error)) for source, error in listener.errors} == {("tokyo", "cannot apply this")}
    trouble.left = 0
    eventually(lambda: tokyo.left == 0)
    assert failures(sink) == []


def test_a_failure_keeps_the_time_of_the_first_try_and_has_its_place(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    def stored() -> Failure | None:
        with reading(sink) as connection:
            return last(connection, tokyo.queue_id(connection), traced=True)

    tokyo.tick([b"e1"])
    subscription = follow(Apply(Trouble(b"e1", FOREVER, fail)))
    first = eventually(stored)
    later = eventually(lambda: (found := stored()) and found.tries >= first.tries + 2 and found)
    assert later.first_us == first.first_us < later.last_us
    assert later.place == f"test_refusals.py, line {fail.__code__.co_firstlineno + 1}, in fail"
    assert later.trace.endswith("in fail\nValueError")
    assert "cannot apply this" not in later.trace
    subscription.close()
    follow(Apply(Trouble(b"e1", FOREVER, fail)))
    again = eventually(lambda: (found := stored()) and found.tries > later.tries and found)
    assert again.first_us == first.first_us, "another process goes on with the same failure"


def test_another_refusal_of_a_parked_entry_replaces_its_traceback_and_counts(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    tokyo.tick([b"e1", b"e1b"])
    follow(Apply(Trouble(b"e1", FOREVER, fail)), on_failure="park", max_tries=2)
    before = eventually(lambda: parked(sink))[0]
    assert (before.attempts, before.entries) == (2, 2)
    retry_parked(sink, before.id)
    after = eventually(lambda: [each for each in parked(sink) if each.attempts == 3])[0]
    assert after.first_us == before.first_us <= before.last_us < after.last_us
    assert parked_trace(sink, after.id).endswith("in fail\nValueError")


def test_returning_false_is_reported_as_an_error_in_words(tokyo: Arrivals, follow: Follow) -> None:
    listener = Apply(Trouble(b"e1", 1, say_false))
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    [(_, error)] = listener.errors
    assert isinstance(error, ListenerError)
    assert "returned False" in str(error)


@pytest.mark.parametrize("answer", [1, "yes", 0, b""])
def test_an_answer_that_is_neither_true_nor_false_is_an_error(
    sink: Engine, tokyo: Arrivals, follow: Follow, answer: object
) -> None:
    listener = Apply(Trouble(b"e1", 1, lambda _: answer))
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert f"returned {type(answer).__name__}: return True (applied) or False" in str(listener.errors[0][1])
    assert story(sink) == ["e1"]


def test_a_listener_that_returns_none_is_told_so(tokyo: Arrivals, follow: Follow) -> None:
    class Forgetful(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            super().process_updates_in_log_entry_sync(session, source_id, entries)

    listener = Forgetful()
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: listener.errors)
    assert "process_updates_in_log_entry_sync returned NoneType" in str(listener.errors[0][1])
    assert tokyo.left == 1


@pytest.mark.parametrize("problem", [RuntimeError("on_error failed"), SystemExit(1)])
def test_an_error_in_on_error_stops_no_entry(
    sink: Engine, tokyo: Arrivals, follow: Follow, problem: BaseException
) -> None:
    class Nervous(Apply):
        def on_error(self, source_id, error):
            super().on_error(source_id, error)
            raise problem

    listener = Nervous(Trouble(b"e2", 3, fail))
    tokyo.tick([b"e1"], [b"e2"], [b"e3"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 3)


def test_a_listener_that_exits_does_not_end_the_subscription(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def leave(_: RoutingTableEntryMsg) -> None:
        raise SystemExit(1)

    listener = Apply(Trouble(b"e1", 1, leave))
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert "sys.exit()" in str(listener.errors[0][1])
    assert story(sink) == ["e1"]


# --- park -------------------------------------------------------------------------------------------------------


@REFUSALS
def test_park_sets_aside_only_the_refused_transaction(
    sink: Engine, tokyo: Arrivals, follow: Follow, refuse: OnEntry
) -> None:
    trouble = Trouble(b"b2", FOREVER, refuse)
    tokyo.tick([b"a1"], [b"b1", b"b2", b"b3"], [b"c1"], [b"d1", b"d2"])
    follow(Apply(trouble), on_failure="park", max_tries=3)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["a1", "c1", "d1", "d2"]
    [aside] = parked(sink)
    assert (aside.client, aside.source, aside.kind, aside.sequence) == ("policy", "tokyo", "log", 2)
    assert (aside.entries, aside.bytes, aside.tries, aside.retrying) == (3, 6, 3, False)
    assert aside.error
    assert failures(sink) == []


def test_the_number_of_tries_survives_a_restart(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1"], [b"e2"])
    first = follow(Apply(Trouble(b"e1", FOREVER, fail)), max_backoff=0.01)
    eventually(lambda: [f for f in failures(sink) if f[1] >= 3])
    first.close()
    [(_, tries, _)] = failures(sink)
    follow(Apply(Trouble(b"e1", FOREVER, fail)), on_failure="park", max_tries=tries + 2)
    eventually(lambda: tokyo.left == 0)
    assert [aside.tries for aside in parked(sink)] == [tries + 2]


@pytest.fixture
def parked_id(sink: Engine, tokyo: Arrivals, follow: Follow) -> int:
    """Park the transaction [b1, b2] and end the subscription."""
    tokyo.tick([b"a1"], [b"b1", b"b2"], [b"c1"])
    subscription = follow(Apply(Trouble(b"b2", FOREVER, fail)), on_failure="park", max_tries=1)
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    return parked(sink)[0].id


def test_a_parked_transaction_is_removed_after_a_successful_retry(
    sink: Engine, parked_id: int, listener: Apply, follow: Follow
) -> None:
    retry_parked(sink, parked_id)
    assert parked(sink)[0].retrying
    follow(listener)
    eventually(lambda: parked(sink) == [])
    assert story(sink) == ["a1", "c1", "b1", "b2"]
    assert [[entry.sequence for entry in call] for call in listener.calls] == [[2, 3]]
    assert {entry.transaction for entry in listener.calls[0]} == {2}


def test_a_parked_transaction_that_is_refused_again_stays_parked(
    sink: Engine, tokyo: Arrivals, parked_id: int, follow: Follow
) -> None:
    listener = Apply(Trouble(b"b1", FOREVER, fail))
    retry_parked(sink, parked_id)
    tokyo.tick([b"d1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0 and not parked(sink)[0].retrying)
    assert story(sink) == ["a1", "c1", "d1"]
    assert len(listener.errors) == 1


def test_a_parked_transaction_can_be_retried_while_the_queue_is_blocked(
    sink: Engine, tokyo: Arrivals, parked_id: int, follow: Follow
) -> None:
    tokyo.tick([b"d1"])
    trouble = Trouble(b"d1", FOREVER, fail)
    follow(Apply(trouble))
    eventually(lambda: trouble.met)
    retry_parked(sink, parked_id)
    eventually(lambda: parked(sink) == [])
    assert story(sink) == ["a1", "c1", "b1", "b2"]


def test_a_discarded_transaction_is_removed(sink: Engine, parked_id: int) -> None:
    discard_parked(sink, parked_id)
    assert parked(sink) == []


def test_parked_transactions_are_listed_by_client(sink: Engine, parked_id: int) -> None:
    assert [aside.id for aside in parked(sink, client="policy")] == [parked_id]
    assert parked(sink, client="policy_v2") == []


@pytest.mark.parametrize("act", [retry_parked, discard_parked])
def test_an_unknown_parked_transaction_is_refused_in_words(sink: Engine, act) -> None:
    with pytest.raises(UsageError, match="no parked transaction 77"):
        act(sink, 77)


def test_a_refused_snapshot_row_is_parked_alone(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.snapshot("s1", payloads("r", 5))
    subscription = follow(Apply(Trouble(b"r3", FOREVER, fail)), on_failure="park", max_tries=2)
    eventually(lambda: tokyo.left == 0)
    eventually(lambda: story(sink) == ["<start>", "r1", "r2", "r4", "r5", "<complete>"])
    subscription.close()
    [aside] = parked(sink)
    assert (aside.kind, aside.history, aside.sequence, aside.entries) == ("snapshot", "s1", 3, 1)
    listener = Apply()
    retry_parked(sink, aside.id)
    follow(listener)
    eventually(lambda: parked(sink) == [])
    [[entry]] = listener.calls
    assert (entry.sync_id, entry.sequence, entry.opaque_payload) == ("s1", 3, b"r3")


# --- a listener that ends its transaction or uses savepoints ----------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        lambda session: session.commit(),
        lambda session: session.rollback(),
        lambda session: session.close(),
        lambda session: session.reset(),
        lambda session: session.invalidate(),
        lambda session: session.connection().commit(),
        lambda session: session.connection().rollback(),
        lambda session: session.get_transaction().rollback(),
    ],
)
def test_a_listener_that_ends_its_transaction_is_told_and_no_entry_is_lost(
    sink: Engine, tokyo: Arrivals, follow: Follow, end
) -> None:
    class Meddler(Apply):
        meddles = True

        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            answer = super().process_updates_in_log_entry_sync(session, source_id, entries)
            if self.meddles:
                self.meddles = False
                end(session)
            return answer

    listener = Meddler()
    tokyo.tick([b"e1"], [b"e2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
    [(_, error)] = listener.errors
    assert isinstance(error, ListenerError)
    assert "return True to keep your changes, False to undo them" in str(error)


def test_a_listener_may_use_its_own_savepoints(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    class Careful(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            savepoint = session.begin_nested()
            super().process_updates_in_log_entry_sync(session, source_id, entries)
            savepoint.rollback()
            with session.begin_nested():
                return super().process_updates_in_log_entry_sync(session, source_id, entries)

    tokyo.tick([b"e1"], [b"e2"])
    follow(Careful())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]


def test_entries_are_repeated_if_the_database_refuses_the_commit(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    with writing(sink) as connection:
        connection.execute(text("CREATE TABLE parent (id integer PRIMARY KEY)"))
        connection.execute(
            text(
                "CREATE TABLE child (id integer PRIMARY KEY,"
                " parent integer REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)"
            )
        )

    class Orphaning(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            if session.get_bind().dialect.name == "sqlite":
                session.execute(text("PRAGMA defer_foreign_keys = ON"))
            parent = 1 if len(self.calls) > 2 else 2
            session.execute(text("INSERT INTO parent VALUES (1)"))
            session.execute(text("INSERT INTO child VALUES (1, :parent)"), {"parent": parent})
            return super().process_updates_in_log_entry_sync(session, source_id, entries)

    if sink.dialect.name == "sqlite":
        _enforce_foreign_keys(sink)
    listener = Orphaning()
    tokyo.tick([b"e1", b"e2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert len(listener.calls) == 4
    assert story(sink) == ["e1", "e2"]


def _enforce_foreign_keys(engine: Engine) -> None:
    from sqlalchemy import event

    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"))
    engine.dispose()
