"""A provider that fails with any error is tried again after a backoff, and the log has one traceback."""

import asyncio
import logging
import math
import threading
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, text

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter
from lr_client.snapshot.transmitter import exponential
from queues import send_snapshot
from queues.clock import SystemClock
from queues.database import leases, tables
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, UsageError
from queues.logs import FIELDS
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.states import transmitter_lease
from queues.words import LONGEST
from tests.lr_client.snapshot.providing import (
    LIMA,
    POLICY,
    Provider,
    by_id,
    claim,
    newest,
    numbered,
    payloads_of,
    quick,
    ready,
    request,
)
from tests.waiting import eventually

pytestmark = pytest.mark.long

HOUR = 3_600.0
FOREIGN = "bad \0\ud800 " + "x" * 3_500_000
KEPT = "ValueError: bad �� " + "x" * (LONGEST - 20) + "…"


class Failing(Provider):
    """Raises *error* in its first *times* calls."""

    def __init__(self, error: BaseException, times: float = float("inf")) -> None:
        super().__init__(numbered(1))
        self.error = error
        self.left = times
        self.calls = 0

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self.error
        super().provide_full_state_data(context)


def test_a_failure_in_any_words_is_stored_and_waits_for_its_backoff(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    provider = Failing(ValueError(FOREIGN))
    with quick(site, provider, backoff=lambda _attempt: HOUR):
        eventually(lambda: by_id(site, sync_id).error)
        request(site, "lima")
        eventually(lambda: newest(site, "lima").error)
    found = by_id(site, sync_id)
    assert (found.state, found.error, found.attempt) == ("requested", KEPT, 1)
    with reading(site) as connection:
        assert connection.scalar(text("SELECT retry_us > updated_us FROM lrq_snapshots WHERE error <> ''"))
    assert provider.calls == 2


def test_a_progress_in_any_words_is_stored(site: Engine) -> None:
    class Odd(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            context.transmit(b"row", progress=FOREIGN)
            context.mark_completed()

    (sync_id,) = request(site, "tokyo")
    with quick(site, Odd(numbered(1))):
        found = ready(site, sync_id)
    assert found.progress == "bad �� " + "x" * (LONGEST - 8) + "…"


def test_the_reasons_of_a_request_of_a_failure_and_of_a_cancel_are_stored_in_any_words(site: Engine) -> None:
    kept = "bad �� " + "x" * (LONGEST - 8) + "…"
    with writing(site) as connection:
        (sync_id,) = send_snapshot.request(connection, POLICY, ["tokyo"], FOREIGN)
    assert by_id(site, sync_id).reason == kept
    attempt = claim(site)
    with writing(site) as connection:
        snapshot_attempts.fail(connection, attempt, FOREIGN, retry_after=HOUR)
    assert by_id(site, sync_id).error == kept
    request(site, "lima")
    with writing(site) as connection:
        send_snapshot.cancel(connection, POLICY, LIMA, reason=FOREIGN)
    assert newest(site, LIMA).error == kept


def test_the_backoff_doubles_up_to_five_minutes() -> None:
    for attempt, most in ((1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (1_000_000, 300)):
        assert most / 2 <= exponential(attempt) <= most


def test_a_failure_that_cannot_be_stored_waits_for_its_backoff_too(
    site: Engine, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    (sync_id,) = request(site, "tokyo")
    refuse_failures(site, dialect)
    provider = Failing(ValueError("cannot provide"))
    with quick(site, provider, backoff=lambda _attempt: HOUR, lease_seconds=0.2):
        eventually(lambda: "a failed attempt cannot be stored" in caplog.text)
        seen = {expiry(site)}
        eventually(lambda: len(seen.add(expiry(site)) or seen) > 3)
        assert provider.calls == 1
    assert by_id(site, sync_id).state == "building"


def refuse_failures(site: Engine, dialect: str) -> None:
    """Make the database refuse every failed attempt."""
    with writing(site) as connection:
        if dialect == "sqlite":
            connection.execute(
                text(
                    "CREATE TRIGGER refusal BEFORE UPDATE ON lrq_snapshots WHEN NEW.error != '' "
                    "BEGIN SELECT RAISE(ABORT, 'refused'); END"
                )
            )
        else:
            connection.execute(text("ALTER TABLE lrq_snapshots ADD CONSTRAINT refusal CHECK (error = '')"))


def expiry(site: Engine) -> int:
    with reading(site) as connection:
        return int(connection.execute(sqlalchemy.select(tables.servers.leases.c.expires_us)).scalar_one())


ERRORS = [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit(), SystemExit(1)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_that_is_no_exception_fails_one_attempt(site: Engine, error: BaseException) -> None:
    (sync_id,) = request(site, "tokyo")
    with quick(site, Failing(error, times=1)) as transmitter:
        assert ready(site, sync_id).attempt == 2
        assert transmitter.problem == ""


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    shown = [getattr(record, FIELDS) for record in caplog.records if hasattr(record, FIELDS)]
    return [
        fields["exception"]
        for fields in shown
        if fields["event"] == "snapshot attempt failed" and "exception" in fields
    ]


def test_the_traceback_of_a_repeated_failure_is_logged_once(site: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "lr_client")
    (sync_id,) = request(site, "tokyo")
    with quick(site, Failing(ValueError("cannot provide"), times=5)):
        assert ready(site, sync_id).attempt == 6
    assert caplog.text.count("event='snapshot attempt failed'") == 5
    [trace] = tracebacks(caplog)
    assert "in Failing.provide_full_state_data" in trace


def test_no_message_of_a_provider_s_error_is_logged_but_its_class_and_place(
    site: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless(Failing):
        def cancel(self, context: SnapshotContext) -> None:
            raise KeyError("a secret row")

    caplog.set_level(logging.DEBUG)
    (sync_id,) = request(site, "tokyo")
    with quick(site, Careless(ValueError("cannot provide a secret row"))):
        eventually(lambda: "secret row" in by_id(site, sync_id).error)
    told = [getattr(record, FIELDS) for record in caplog.records if hasattr(record, FIELDS)]
    failed = next(fields for fields in told if fields["event"] == "snapshot attempt failed")
    assert (failed["error"], failed["shown_by"]) == ("ValueError", "lrq snapshot list")
    assert failed["place"].startswith("test_failing_provider.py, line ")
    assert "secret row" not in caplog.text + repr(told)


def test_a_transmitter_whose_thread_ends_names_the_reason_and_releases_its_lease(site: Engine) -> None:
    class Broken(SystemClock):
        def wait(self, event: threading.Event, timeout: float) -> bool:
            raise KeyError("bug")

    transmitter = quick(site, Provider(numbered(1)), clock=Broken(), lease_seconds=60.0)
    eventually(lambda: transmitter.problem)
    assert "the thread lrq-transmitter-policy has ended by an error of its own: KeyError: 'bug'" in transmitter.problem
    eventually(lambda: leases.holder(site, transmitter_lease(POLICY)).expired)
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(numbered(1))):
        ready(site, sync_id)


# --- objects of the application ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [{"parallel": 0}, {"parallel": 1.5}, {"share_window": -1}, {"share_window": math.nan}, {"share_window": None}],
)
def test_an_option_out_of_range_is_refused(site: Engine, option: dict[str, Any]) -> None:
    client = RoutingQueueSenderClient("policy")
    with pytest.raises(ConfigurationError, match=f"{next(iter(option))} must be"):
        client.start_snapshot_transmitter(site, Provider(numbered(1)), **option)


def test_a_class_of_providers_is_refused(site: Engine) -> None:
    with pytest.raises(UsageError, match=r"the provider is the class Provider: pass an object"):
        SnapshotTransmitter(site, POLICY, Provider)  # type: ignore[arg-type]


def test_a_function_whose_code_has_not_run_provides_no_empty_snapshot(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with quick(site, lambda context: map(context.transmit, [b"1", b"2"]), backoff=lambda _attempt: HOUR):
        eventually(lambda: by_id(site, sync_id).error != "")
    found = by_id(site, sync_id)
    assert found.state == "requested"
    assert "<lambda> returned map, and nothing would run it" in found.error


@pytest.mark.parametrize("name", ["provide_full_state_data", "cancel"])
def test_a_provider_with_an_async_method_is_refused(site: Engine, name: str) -> None:
    async def later(_self: object, _context: object) -> None:
        pass

    provider = type("Later", (Provider,), {name: later})(numbered(1))
    with pytest.raises(UsageError, match=f"Later.{name} is `async def`"):
        SnapshotTransmitter(site, POLICY, provider)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_snapshot_that_is_completed_inside_the_block_of_a_cut_has_the_rows_of_a_later_cut(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE airports (name TEXT)"))
        connection.execute(text("INSERT INTO airports VALUES ('before')"))

    def provide(context: SnapshotContext) -> None:
        if not by_id(site, context.sync_id).error:
            with site.begin() as connection:
                connection.execute(text("TRUNCATE airports"))
                connection.execute(text("INSERT INTO airports VALUES ('after')"))
        with context.snapshot.connect() as connection:
            for (name,) in connection.execute(text("SELECT name FROM airports")):
                context.transmit(name.encode())
            context.mark_completed()

    (sync_id,) = request(site, "tokyo")
    with quick(site, provide):
        found = ready(site, sync_id)
    assert payloads_of(site, sync_id) == [b"after"]
    assert found.attempt == 2
