"""Subscribing says at once, in one sentence, what is missing or wrong; any engine of the application serves."""

import pytest
from sqlalchemy import Engine, create_engine, text

import queues
from lr_client.listener import RoutingQueueListener
from lr_client.subscriber import subscribe
from queues.errors import InvalidNameError, NotInitializedError, NotInTransactionError, UsageError
from queues.transactions import writing
from tests.subscriber.applying import Apply, payloads, story, texts
from tests.subscriber.arrivals import Arrivals
from tests.subscriber.conftest import Follow
from tests.waiting import eventually


def test_a_database_without_tables_is_refused_with_what_to_run(new_database) -> None:
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
        {"max_tries": 0},
        {"backoff": -1.0},
        {"max_batch_entries": 0},
        {"max_batch_bytes": 0},
        {"lease_ttl": 0},
        {"on_failure": "ignore"},
    ],
)
def test_an_option_that_makes_no_sense_is_refused(sink: Engine, option: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        subscribe(sink, Apply(), **option)


def test_an_engine_that_commits_every_statement_is_refused(sink: Engine) -> None:
    engine = create_engine(sink.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(NotInTransactionError, match="AUTOCOMMIT"):
        subscribe(engine, Apply())
    engine.dispose()


def test_an_engine_of_the_application_s_own_serves(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_stricter_isolation_of_the_application_s_engine_serves(
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


def test_a_pool_with_one_connection_is_enough(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    engine = create_engine(sink.url, pool_size=1, max_overflow=0)
    tokyo.tick([b"e1"])
    Arrivals(sink, source="paris").tick([b"p1"])
    subscription = follow(Apply(), engine)
    eventually(lambda: story(sink) == ["e1"] and story(sink, "paris") == ["p1"])
    subscription.close()
    engine.dispose()


def test_entries_survive_a_database_that_goes_away_for_a_while(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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
