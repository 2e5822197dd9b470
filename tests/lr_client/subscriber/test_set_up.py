"""Subscribing fails at once, in one sentence, if the set-up is wrong; any engine of the application works."""

import math
from functools import partial
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine

import queues
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import subscribe
from queues.database.transactions import writing
from queues.errors import (
    InvalidNameError,
    NotInitializedError,
    NotInTransactionError,
    StoreUnavailableError,
    UsageError,
)
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def test_a_database_without_tables_is_refused_with_the_command_to_run(new_database) -> None:
    engine = queues.create_engine(new_database())
    with pytest.raises(NotInitializedError, match="run `lrq init`"):
        subscribe(engine, Apply())
    engine.dispose()


@pytest.mark.parametrize("client", ["", "a/b", "x" * 65, None, 7])
def test_a_malformed_client_name_is_refused(sink: Engine, client: object) -> None:
    with pytest.raises(InvalidNameError, match="client name"):
        subscribe(sink, Apply(client=client))


def test_a_listener_without_a_client_name_is_refused(sink: Engine) -> None:
    class Nameless(RoutingQueueListener):
        def process_updates_in_snapshot_sync(self, session, source_id, entries):
            return True

        process_updates_in_log_entry_sync = process_updates_in_snapshot_sync

    with pytest.raises(InvalidNameError, match="client name"):
        subscribe(sink, Nameless())


@pytest.mark.parametrize(
    "option",
    [
        {"poll_interval": 0},
        {"poll_interval": math.inf},
        {"poll_interval": math.nan},
        {"lease_ttl": math.inf},
        {"max_backoff": 1e12},
        {"max_tries": 2.5},
        {"max_batch_entries": 1.5},
        {"max_batch_bytes": math.inf},
        {"max_tries": 0},
        {"backoff": -1.0},
        {"max_batch_entries": 0},
        {"max_batch_bytes": 0},
        {"lease_ttl": 0},
        {"on_failure": "ignore"},
    ],
)
def test_an_invalid_option_is_refused(sink: Engine, option: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        subscribe(sink, Apply(), **option)


def test_a_class_of_listeners_is_refused(sink: Engine) -> None:
    with pytest.raises(UsageError, match=r"the listener is the class Apply: pass an object, Apply\(…\)"):
        subscribe(sink, Apply)  # type: ignore[arg-type]


CALLBACKS = [
    "process_updates_in_snapshot_sync",
    "process_updates_in_log_entry_sync",
    "on_snapshot_sync_start",
    "on_snapshot_sync_complete",
    "on_rollback",
    "on_error",
]


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_listener_with_an_async_method_is_refused(sink: Engine, name: str) -> None:
    async def later(_self: object, *_details: object) -> bool:
        return True

    listener = type("Later", (Apply,), {name: later})()
    with pytest.raises(UsageError, match=f"Later.{name} is `async def`"):
        subscribe(sink, listener)


def test_an_async_method_behind_a_partial_or_an_object_is_refused(sink: Engine) -> None:
    async def later(*_details: object) -> bool:
        return True

    class Later:
        async def __call__(self, *_details: object) -> bool:
            return True

    for method in (partial(later), Later()):
        listener = Apply()
        listener.on_error = method  # type: ignore[method-assign]
        with pytest.raises(UsageError, match=r"Apply\.on_error is `async def`"):
            subscribe(sink, listener)


def test_an_object_without_the_methods_of_a_listener_is_refused(sink: Engine) -> None:
    with pytest.raises(UsageError, match="the listener SimpleNamespace has no method process_updates_in_snapshot_sync"):
        subscribe(sink, SimpleNamespace(client_name="policy"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["on_snapshot_sync_start", "on_snapshot_sync_complete"])
def test_a_callback_that_returns_a_coroutine_is_told_and_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, name: str
) -> None:
    async def later() -> None:
        pass

    listener = Apply()
    setattr(listener, name, lambda *_: later())
    tokyo.snapshot("s1", [b"r1"])
    follow(listener)
    eventually(lambda: listener.errors)
    assert f"{name} returned coroutine: nothing awaits it" in str(listener.errors[0][1])
    assert "<complete>" not in story(sink)


def test_an_asynchronous_engine_is_refused(dialect: str) -> None:
    url = "sqlite+aiosqlite://" if dialect == "sqlite" else "postgresql+psycopg://nowhere/x"
    engine = create_async_engine(url)
    for given in (engine, engine.sync_engine):
        with pytest.raises(UsageError, match=r"^subscribe .*works in threads.* make one with queues.create_engine"):
            subscribe(given, Apply())  # type: ignore[arg-type]


def test_only_an_engine_is_taken_as_an_engine(sink: Engine) -> None:
    with sink.connect() as connection:
        for given in (connection, connection.connection.dbapi_connection, str(sink.url), None):
            with pytest.raises(UsageError, match="subscribe needs an engine, not a"):
                subscribe(given, Apply())  # type: ignore[arg-type]


def test_an_engine_in_autocommit_mode_is_refused(sink: Engine) -> None:
    engine = create_engine(sink.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(NotInTransactionError, match="AUTOCOMMIT"):
        subscribe(engine, Apply())
    engine.dispose()


def test_an_engine_of_the_application_works(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    engine = create_engine(sink.url)
    listener = Apply()
    tokyo.snapshot("s1", payloads("r", 3))
    tokyo.tick([b"e1", b"e2"])
    subscription = follow(listener, engine)
    for n in range(10):
        tokyo.tick([f"x{n}".encode()])
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    engine.dispose()
    assert story(sink) == ["<start>", *texts("r", 3), "<complete>", "e1", "e2", *[f"x{n}" for n in range(10)]]
    assert listener.errors == []


def test_an_engine_with_client_side_cursors_works(sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one kind of cursor")
    engine = create_engine(sink.url, connect_args={"cursor_factory": psycopg.ClientCursor})
    listener = Apply()
    tokyo.snapshot("s1", payloads("r", 3))
    tokyo.tick([b"e1", b"\x00%s"])
    subscription = follow(listener, engine)
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    engine.dispose()
    assert story(sink) == ["<start>", *texts("r", 3), "<complete>", "e1", "\x00%s"]
    assert listener.errors == []


def test_a_subscriber_that_cannot_write_tells_so_once(sink: Engine, dialect: str, follow: Follow) -> None:
    url = sink.url.set(database=f"file:{sink.url.database}").update_query_dict({"mode": "ro", "uri": "true"})
    read_only = {"options": "-c default_transaction_read_only=on"}
    engine = create_engine(url) if dialect == "sqlite" else create_engine(sink.url, connect_args=read_only)
    listener = Apply()
    subscription = follow(listener, engine, lease_ttl=0.03)
    eventually(lambda: listener.errors)
    turns: list[object] = []
    event.listen(engine, "checkout", lambda *_: turns.append(None))
    eventually(lambda: len(turns) > 5)
    assert not subscription.active
    subscription.close()
    engine.dispose()
    [(source, error)] = listener.errors
    assert source == ""
    assert isinstance(error, StoreUnavailableError)
    assert "read" in str(error)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_engine_with_a_stricter_isolation_level_works(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow, level: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite is always serializable")
    engine = create_engine(sink.url, isolation_level=level)
    listener = Apply()
    subscription = follow(listener, engine, max_batch_entries=2)
    for n in range(30):
        tokyo.tick([f"x{n}".encode()])
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    engine.dispose()
    assert story(sink) == [f"x{n}" for n in range(30)]


def test_a_pool_with_one_connection_suffices(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    engine = create_engine(sink.url, pool_size=1, max_overflow=0)
    tokyo.tick([b"e1"])
    Arrivals(sink, source="paris").tick([b"p1"])
    subscription = follow(Apply(), engine)
    eventually(lambda: story(sink) == ["e1"] and story(sink, "paris") == ["p1"])
    subscription.close()
    engine.dispose()


def test_entries_survive_a_temporary_failure_of_the_database(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    listener = Apply()
    follow(listener)
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    with writing(sink) as connection:
        connection.execute(text("ALTER TABLE lrq_consumers RENAME TO gone"))
    eventually(lambda: listener.errors)
    with writing(sink) as connection:
        connection.execute(text("ALTER TABLE gone RENAME TO lrq_consumers"))
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
