"""What runs periodically in a server. The one module of it that knows APScheduler."""

from collections.abc import Callable
from datetime import UTC
from typing import Final

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from queues.logs import errors_only

#: Most jobs that run at the same moment; others wait their turn.
MAX_THREADS: Final = 4

OnError = Callable[[str, Exception], None]


class Jobs:
    """Functions that are called again and again in threads of their own, never twice at the same time.

    A call that takes longer than its period makes the next one late, and is not made up for.
    """

    def __init__(self, *, max_threads: int = MAX_THREADS) -> None:
        """Nothing runs before `start`."""
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(max_threads)},
            job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
            # That a call is left out while the one before goes on is meant.
            logger=errors_only("lrq.scheduler"),
            timezone=UTC,
        )

    def add_periodic(self, name: str, seconds: float, function: Callable[[], object], on_error: OnError) -> None:
        """Call *function* every *seconds*, at first after that time; *name* is its own and replaces an older one's.

        What it raises goes to *on_error* with the name, and the next call comes all the same.
        """

        def run() -> None:
            try:
                function()
            except Exception as error:  # noqa: BLE001 - told to whoever added it; a job has nobody else to tell
                on_error(name, error)

        trigger = IntervalTrigger(seconds=seconds, timezone=UTC)
        self._scheduler.add_job(run, trigger, id=name, name=name, replace_existing=True)

    def start(self) -> None:
        """Begin; what is added later runs too."""
        self._scheduler.start()

    def stop(self) -> None:
        """Begin no further call and wait for those that run; harmless when nothing was started."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
