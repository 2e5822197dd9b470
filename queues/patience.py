"""Go on looking at a database that cannot be used for a moment, as after a failover."""

from collections.abc import Callable
from typing import Final, TypeVar

from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import StoreUnavailableError

Result = TypeVar("Result")

#: The seconds in a row for which a look may fail: a failover of PostgreSQL takes less.
PATIENCE: Final = 60.0


def patiently(
    look: Callable[[], Result],
    meanwhile: Callable[[StoreUnavailableError], Result],
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Callable[[], Result]:
    """Return a function that gives the result of *look*, or that of *meanwhile* while the database cannot be used.

    After `PATIENCE` seconds without a result of *look* the function raises the `StoreUnavailableError`.
    """
    failing_since: float | None = None

    def asked() -> Result:
        nonlocal failing_since
        try:
            found = look()
        except StoreUnavailableError as error:
            now = clock.monotonic()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= PATIENCE:
                raise
            return meanwhile(error)
        failing_since = None
        return found

    return asked
