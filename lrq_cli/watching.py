"""`lrq top` on a terminal: frames, until somebody has seen enough."""

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

from lr_server.status import read_status
from lrq_cli.output import console
from lrq_cli.place import OpenSite
from lrq_cli.rates import Look, Rates, rates
from lrq_cli.status_view import status_view
from queues.clock import SYSTEM_CLOCK
from queues.errors import TransientError

#: Looks whose rates the line of bars shows.
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
    """One status after another."""

    def __init__(self, here: OpenSite, interval: float) -> None:
        self._here = here
        self._interval = interval
        self._last: Look | None = None
        self._history: deque[float] = deque(maxlen=_REMEMBERED)

    def next(self) -> RenderableType:
        """Look again; a database that cannot be reached just now is told below the last frame."""
        trouble = ""
        fresh = Rates()
        try:
            look = Look(read_status(self._here.engine), SYSTEM_CLOCK.monotonic())
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
    """Give a function that waits for a key; the terminal passes every key on at once meanwhile."""
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
        """Return the key that is pressed within *timeout* seconds; an empty string when none is."""
        watched = [] if self._descriptor is None else [self._descriptor]
        ready, _, _ = select.select(watched, [], [], timeout)
        return os.read(ready[0], 1).decode("ascii", "replace") if ready else ""
