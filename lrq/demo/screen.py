"""Show the progress: a live table on a terminal, plain lines in a pipe."""

from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.live import Live

from lrq.demo.report import StoryReport
from lrq.demo.tables import final_table, live_table, summary
from lrq.demo.views import SiteView, View
from queues.clock import SYSTEM_CLOCK

#: Time between two lines of progress, in seconds.
_BETWEEN_LINES: Final = 3.0
#: Width of the output outside a terminal, in characters.
_WIDTH: Final = 160


class Screen(Protocol):
    """Shows progress inside its `with` block, and the result after the block."""

    def say(self, words: str) -> None:
        """Print one event of the story."""
        ...

    def show(self, view: View) -> None:
        """Show the progress of every site."""
        ...

    def conclude(self, report: StoryReport) -> None:
        """Show the result."""
        ...

    def __enter__(self) -> Self:
        """Take over the console."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the console as it was."""
        ...


def screen_for(*, json_output: bool) -> Screen:
    """Return a screen for the kind of console; with *json_output*, the screen uses the standard error."""
    console = Console(stderr=json_output)
    if json_output or not console.is_terminal or console.is_dumb_terminal:
        return Lines(Console(stderr=json_output, width=_WIDTH))
    return Terminal(console)


class Lines:
    """Plain lines, for a file or another program."""

    def __init__(self, console: Console) -> None:
        """Write to *console*."""
        self._console = console
        self._began = SYSTEM_CLOCK.monotonic()
        self._next_line = _BETWEEN_LINES

    def say(self, words: str) -> None:
        """See `Screen`."""
        self._print(f"{self._seconds():5.1f} s  {words}")

    def show(self, view: View) -> None:
        """See `Screen`; at most one line every few seconds."""
        if self._seconds() >= self._next_line:
            self._next_line = self._seconds() + _BETWEEN_LINES
            sites = "; ".join(f"{name} {_progress(site)}" for name, site in view.sites.items())
            self.say(f"    written {view.entries:,}; {sites}")

    def conclude(self, report: StoryReport) -> None:
        """See `Screen`."""
        self._console.print(final_table(report, plain=True))
        for words in summary(report):
            self._print(words)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Change nothing: lines need no clean-up."""

    def _seconds(self) -> float:
        return SYSTEM_CLOCK.monotonic() - self._began

    def _print(self, words: str) -> None:
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)


def _progress(site: SiteView) -> str:
    return f"{site.delivered:,} ({site.behind:,} behind)" if site.applied else site.session or "not there"


class Terminal:
    """Lines of events above a live table."""

    def __init__(self, console: Console) -> None:
        """Draw on *console*."""
        self._console = console
        self._began = SYSTEM_CLOCK.monotonic()
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def say(self, words: str) -> None:
        """See `Screen`."""
        self._live.console.print(f"[cyan]»[/] {words}", highlight=False)

    def show(self, view: View) -> None:
        """See `Screen`."""
        self._live.update(live_table(view, SYSTEM_CLOCK.monotonic() - self._began), refresh=True)

    def conclude(self, report: StoryReport) -> None:
        """See `Screen`."""
        self._console.print(final_table(report, plain=False))
        for words in summary(report):
            self._console.print(words)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the console back."""
        self._live.stop()
