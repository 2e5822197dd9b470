"""`lrq top` on a terminal: a frame after each interval, until q or Ctrl-C."""

import os
import select
import sys
import termios
import threading
import tty
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text
from sqlalchemy import Engine

from discovery.status import read_status
from lrq.cli.output import console
from lrq.cli.place import OpenSite
from lrq.cli.views.rates import Look, Rates, rates
from lrq.cli.views.status import status_view
from lrq.cli.words import duration
from queues.clock import SYSTEM_CLOCK
from queues.errors import TransientError

#: Number of past rates in the line of bars.
_REMEMBERED: Final = 60
#: A frame waits so many seconds for the database; meanwhile no key counts.
_PATIENCE: Final = 0.5
#: The key that stands for a terminal that is gone: a read would return at once for ever.
_GONE: Final = "\x04"
#: After so many seconds without an answer the age of the figures is shown.
_SILENT: Final = 3.0


def watch(here: OpenSite, interval: float) -> None:
    """Show a frame every *interval* seconds, until q or Ctrl-C."""
    frames = _Frames(here, interval)
    with _keys() as pressed, Live(screen=True, auto_refresh=False, console=console()) as live:
        while True:
            live.update(frames.next(), refresh=True)
            if pressed(interval) in ("q", "Q", "\x03", _GONE):
                return


class _Reading:
    """One reading of the status in a thread of its own, because the database may never answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._result: Future[Look] = Future()
        self.began = SYSTEM_CLOCK.monotonic()
        threading.Thread(target=self._read, name="lrq-top", daemon=True).start()

    def _read(self) -> None:
        try:
            self._result.set_result(Look(read_status(self._engine).without_messages(), SYSTEM_CLOCK.monotonic()))
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._result.set_exception(error)

    def get(self, seconds: float) -> Look | None:
        """Return the look, or None if it has not ended in *seconds*; raise the error of the reading."""
        return self._result.result() if wait([self._result], seconds).done else None


class _Frames:
    """Reads the status and renders one frame after another."""

    def __init__(self, here: OpenSite, interval: float) -> None:
        self._here = here
        self._interval = interval
        self._last: Look | None = None
        self._rates = Rates()
        self._reading: _Reading | None = None
        self._history: deque[float] = deque(maxlen=_REMEMBERED)

    def next(self) -> RenderableType:
        """Read the status and return a frame; show below an older status why there is no new one."""
        reading = self._reading = self._reading or _Reading(self._here.engine)
        trouble = ""
        try:
            look = reading.get(_PATIENCE)
        except TransientError as error:
            trouble, self._reading = str(error), None
        else:
            if look is not None:
                self._reading = None
                self._take(look)
            elif (silent := SYSTEM_CLOCK.monotonic() - reading.began) > _SILENT:
                trouble = f"the database has not answered for {duration(silent)}"
        return self._frame(trouble, Rates() if trouble else self._rates)

    def _take(self, look: Look) -> None:
        if self._last is not None:
            self._rates = rates(self._last, look)
            self._history.append(self._rates.of("log") or 0.0)
        self._last = look

    def _frame(self, trouble: str, fresh: Rates) -> RenderableType:
        shown: list[RenderableType] = []
        if self._last is not None:
            shown.append(
                status_view(self._last.status, where=self._here.place.shown, rates=fresh, history=self._history)
            )
        if trouble:
            shown.append(Text(f"{trouble}{self._age()}", style="bold red"))
        shown.append(Text(f"every {self._interval:g} s · q to quit", style="dim"))
        return Group(*shown)

    def _age(self) -> str:
        """Return the words about the age of the shown figures."""
        if self._last is None:
            return ""
        return f"; these figures are {duration(SYSTEM_CLOCK.monotonic() - self._last.at)} old"


@contextmanager
def _keys() -> Iterator["_Pressed"]:
    """Yield a function that waits for a key; meanwhile the terminal delivers each key without Enter."""
    if not sys.stdin.isatty():
        yield _Pressed(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Pressed(descriptor)
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Pressed:
    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __call__(self, timeout: float) -> str:
        """Return the key pressed within *timeout* seconds; an empty string if there is none."""
        watched = [] if self._descriptor is None else [self._descriptor]
        ready, _, _ = select.select(watched, [], [], timeout)
        if not ready:
            return ""
        try:
            return os.read(ready[0], 1).decode("ascii", "replace") or _GONE
        except OSError:
            return _GONE
