"""The scheduler repeats jobs, never overlaps them, and reports their errors."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from discovery.scheduler import Jobs, _Period
from queues.clock import now_us
from tests.waiting import eventually


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.stop()


def ignore(_name: str, _error: Exception) -> None:
    """Ignore an error that the test does not expect."""


def test_a_job_runs_repeatedly(jobs: Jobs):
    runs: list[int] = []
    jobs.add_periodic("count", 0.01, lambda: runs.append(1), ignore)
    jobs.start()
    eventually(lambda: len(runs) >= 3)


class JumpingTime(datetime):
    """The time of day with a jump."""

    jump = timedelta(0)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(now_us() / 1_000_000, tz) + cls.jump


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[JumpingTime]:
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", JumpingTime)
    monkeypatch.setattr("discovery.scheduler.now_us", lambda: int(JumpingTime.now(UTC).timestamp() * 1_000_000))
    monkeypatch.setattr(JumpingTime, "jump", timedelta(0))
    return JumpingTime


def test_jobs_go_on_after_a_jump_of_the_clock_ahead_and_back(jobs: Jobs, clock: type[JumpingTime]):
    runs: list[int] = []
    jobs.add_periodic("count", 0.01, lambda: runs.append(1), ignore)
    jobs.start()
    for days in (0, 400, 0, -400, 0):
        clock.jump = timedelta(days=days)
        before = len(runs)
        eventually(lambda before=before: len(runs) >= before + 3)


def test_jobs_go_on_after_a_jump_back_that_their_wait_is_reckoned_from(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = BackgroundScheduler._process_jobs

    def with_a_jump_at_the_end(scheduler: BackgroundScheduler) -> float:
        return float(usual(scheduler)) + timedelta(days=40).total_seconds()

    monkeypatch.setattr(BackgroundScheduler, "_process_jobs", with_a_jump_at_the_end)
    runs: list[int] = []
    jobs.add_periodic("count", 0.01, lambda: runs.append(1), ignore)
    jobs.add_periodic("seldom", 3_600.0, lambda: None, ignore)
    jobs.start()
    eventually(lambda: len(runs) >= 3, timeout=20)


def test_a_long_jump_ahead_is_one_missed_call() -> None:
    trigger, now = _Period(0.2), datetime.fromtimestamp(now_us() / 1_000_000, UTC)
    assert trigger.get_next_fire_time(now - timedelta(days=10_000), now) == now + timedelta(seconds=0.2)


def test_a_failing_job_is_reported_by_name_and_runs_again(jobs: Jobs):
    told: list[tuple[str, str]] = []

    def fail() -> None:
        raise ValueError("no luck")

    jobs.add_periodic("trim", 0.01, fail, lambda name, error: told.append((name, str(error))))
    jobs.start()
    eventually(lambda: len(told) >= 2)
    assert set(told) == {("trim", "no luck")}


def test_a_slow_job_never_overlaps_itself_and_no_warning_is_logged(jobs: Jobs, caplog: pytest.LogCaptureFixture):
    running, together, others = threading.Lock(), threading.Event(), []
    released = threading.Event()

    def slow() -> None:
        if not running.acquire(blocking=False):
            together.set()
            return
        with_timeout = released.wait(20)
        running.release()
        assert with_timeout

    jobs.add_periodic("slow", 0.01, slow, ignore)
    jobs.add_periodic("quick", 0.01, lambda: others.append(1), ignore)
    jobs.start()
    eventually(lambda: running.locked() and len(others) >= 5)
    released.set()
    assert not together.is_set()
    assert not caplog.records


def test_stop_waits_for_the_running_job_and_starts_no_other(jobs: Jobs):
    started, finished = threading.Event(), []
    go_on = threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(20)
        finished.append(1)

    jobs.add_periodic("work", 0.01, work, ignore)
    jobs.start()
    assert started.wait(20)
    stopper = threading.Thread(target=jobs.stop)
    stopper.start()
    go_on.set()
    stopper.join(20)
    assert not stopper.is_alive()
    assert finished == [1]


def test_stopping_jobs_that_never_started_is_harmless():
    Jobs().stop()


def test_a_job_of_the_same_name_replaces_the_older_one(jobs: Jobs):
    old: list[int] = []
    new: list[int] = []
    jobs.start()
    jobs.add_periodic("poll", 3600, lambda: old.append(1), ignore)
    jobs.add_periodic("poll", 0.01, lambda: new.append(1), ignore)
    eventually(lambda: len(new) >= 2)
    assert not old
