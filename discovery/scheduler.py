"""Periodic jobs in threads; the only module that knows APScheduler."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from apscheduler.executors.base import MaxInstancesReachedError
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from discovery.threads import OnEnded, ended, watching
from queues.clock import now_us
from queues.logs import errors_only
from queues.thread_lack import NO_THREAD, is_lack
from queues.thread_room import can_start

# APScheduler warns of each call skipped while the previous one runs, and writes two lines for each call. Here both are
# intended, and the application's own loggers of APScheduler stay as they are.
_LOGGER: Final = errors_only("lrq.scheduler")

#: The most jobs that run at one moment; others wait.
MAX_THREADS: Final = 4

OnError = Callable[[str, Exception], None]


class _QuietExecutor(ThreadPoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """Logs errors only; APScheduler chooses this logger by a name that an application's scheduler has too."""

    def start(self, scheduler: object, alias: str) -> None:
        super().start(scheduler, alias)
        self._logger = _LOGGER
        self._is_short = False

    def _do_submit_job(self, job: Job, run_times: list[datetime]) -> None:
        """Skip a run for which no thread can start; the job runs again after its period."""
        # A refused run stays in the pool's queue, so a shortage refuses one only.
        if not self._is_short or can_start():
            try:
                super()._do_submit_job(job, run_times)
            except RuntimeError as error:
                if not is_lack(error):
                    raise
            else:
                self._is_short = False
                return
        if not self._is_short:
            _LOGGER.error("jobs wait for a thread: %s", NO_THREAD)
        self._is_short = True
        raise MaxInstancesReachedError(job)


class _Period(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """The next time is one period from now.

    APScheduler's own interval lists each missed time: after a jump of the clock by a year, gigabytes of them.
    """

    def __init__(self, seconds: float) -> None:
        self.length = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:  # noqa: ARG002
        return now + self.length


class Jobs:
    """Functions called periodically in threads; calls of one function never overlap.

    A call that outlasts its period delays the next one; missed calls are not made up for. A clock that jumps, ahead or
    back, delays a call by one period at most.
    """

    def __init__(self, *, on_ended: OnEnded = lambda _error: None) -> None:
        """Run no job before `start`; *on_ended* is called if the thread that starts the jobs ends by an error."""
        self._scheduler = _Scheduler(
            executors={"default": _QuietExecutor(MAX_THREADS, {"thread_name_prefix": "lrq-job"})},
            job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
            logger=_LOGGER,
            timezone=UTC,
        )
        self._scheduler.on_ended = on_ended

    def add_periodic(self, name: str, seconds: float, function: Callable[[], object], on_error: OnError) -> None:
        """Call *function* every *seconds*, first after that time; the job replaces an earlier one of the same *name*.

        An error goes to *on_error* with the name; later calls are still made.
        """

        def run() -> None:
            try:
                function()
            except Exception as error:  # noqa: BLE001 - reported, and the next call may succeed
                on_error(name, error)
            except BaseException as error:  # noqa: BLE001 - as above; APScheduler would tell nothing
                on_error(name, ended(f"a call of the job {name}", error))

        self._scheduler.add_job(run, _Period(seconds), id=name, name=name, replace_existing=True)

    def start(self) -> None:
        """Start the jobs; jobs added later run too."""
        self._scheduler.start()

    def stop(self) -> None:
        """Start no further call and wait for running ones; without effect before `start`."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)


class _Scheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
    """APScheduler's, whose thread does not end in silence, and whose jobs do not wait for a clock that went back."""

    on_ended: OnEnded

    def start(self) -> None:
        """Start the thread, or leave a scheduler that runs not: its end would wait for that thread."""
        try:
            super().start()
        except RuntimeError:
            with suppress(RuntimeError):
                self.shutdown()
            raise

    def _process_jobs(self) -> float | None:
        now = datetime.fromtimestamp(now_us() / 1_000_000, UTC)
        jobs = self.get_jobs()
        for job in jobs:
            if job.next_run_time > now + job.trigger.length:
                job.modify(next_run_time=now)
        wait: float | None = super()._process_jobs()
        # APScheduler reads the time once more for the wait, which a clock that has just gone back makes too long.
        return wait if wait is None else min([wait, *(job.trigger.length.total_seconds() for job in jobs)])

    def _main_loop(self) -> None:
        watching("APScheduler", super()._main_loop, self.on_ended)()
