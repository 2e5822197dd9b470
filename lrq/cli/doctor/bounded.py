"""Run probes side by side, each for a bounded time and with its own failure."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from lrq.cli.doctor.findings import Finding, problem, told
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError
from queues.words import in_words


class Probe(NamedTuple):
    """A function that looks at one part, the part's name, and the seconds that the look may take."""

    check: str
    look: Callable[[], Sequence[Finding]]
    seconds: float


def examine(probes: Iterable[Probe]) -> list[Finding]:
    """Return the findings of *probes* in their order; an error or a late answer is a problem of that probe."""
    start = SYSTEM_CLOCK.monotonic()
    begun = [(probe, _begin(probe)) for probe in probes]
    return [finding for probe, future in begun for finding in _answer(probe, future, start + probe.seconds)]


def guarded(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of *look*; its error is a problem of *check*."""
    try:
        return list(look())
    except LrqError as error:
        return [told(check, error)]
    except Exception as error:  # noqa: BLE001 - each check fails alone
        return [problem(check, f"the check itself failed ({in_words(error)})", "report this sentence")]


def _begin(probe: Probe) -> "Future[list[Finding]]":
    future: Future[list[Finding]] = Future()
    # A look-up of a name may hang for minutes, so the process must be able to end without this thread.
    run = threading.Thread(
        target=lambda: future.set_result(guarded(probe.check, probe.look)),
        name=f"lrq-doctor-{probe.check}",
        daemon=True,
    )
    run.start()
    return future


def _answer(probe: Probe, future: "Future[list[Finding]]", until: float) -> list[Finding]:
    try:
        return future.result(max(until - SYSTEM_CLOCK.monotonic(), 0.0))
    except TimeoutError:
        return [problem(probe.check, f"no answer came within {probe.seconds:g} s", "look at the network and the load")]
