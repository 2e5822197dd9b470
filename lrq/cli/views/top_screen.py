"""`lrq top` on a terminal: a frame after each interval, until q or Ctrl-C."""

import os
import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from discovery.status import read_status
from lrq.cli.output import console
from lrq.cli.place import OpenSite
from lrq.cli.views.rates import Look, Rates, rates
from lrq.cli.views.status import status_view
from queues.clock import SYSTEM_CLOCK
from queues.errors import TransientError

#: Number of past rates in the line of bars.
_REMEMBERED: Final = 60


def watch(here: OpenSite, interval: float) -> None:
    """Show a frame every *interval* seconds, until q or Ctrl-C."""
    frames = _Frames(here, interval)
    with _keys() as pressed, Live(screen=True, auto_refresh=False, console=console()) as live:
        while True:
            live.update(frames.next(), refresh=True)
            if pressed(interval) in ("q", "Q", "\x03"):
                return


class _Frames:
    """Reads the status and renders one frame after another."""

    def __init__(self, here: OpenSite, interval: float) -> None:
        self._here = here
        self._interval = interval
        self._last: Look | None = None
        self._history: deque[float] = deque(maxlen=_REMEMBERED)

    def next(self) -> RenderableType:
        """Read the status and return a frame; show a transient error below the last status."""
        trouble = ""
        fresh = Rates()
        try:
            look = Look(read_status(self._here.engine).without_messages(), SYSTEM_CLOCK.monotonic())
        except TransientError as error:
            trouble = str(error)
        else:
            if self._last is not None:
                fresh = rates(self._last, look)
                self._history.append(fresh.of("log") or 0.0)
            self._last = look
        shown: list[RenderableType] = []
        if self._last is not None:
            shown.append(
                status_view(self._last.status, where=self._here.place.shown, rates=fresh, history=self._history)
            )
        if trouble:
            shown.append(Text(trouble, style="bold red"))
        shown.append(Text(f"every {self._interval:g} s · q to quit", style="dim"))
        return Group(*shown)


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
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Pressed:
    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __call__(self, timeout: float) -> str:
        """Return the key pressed within *timeout* seconds; an empty string if there is none."""
        watched = [] if self._descriptor is None else [self._descriptor]
        ready, _, _ = select.select(watched, [], [], timeout)
        return os.read(ready[0], 1).decode("ascii", "replace") if ready else ""
