"""The filters of the templates: numbers, times and texts of others, in words. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from discovery.session_status import Lag
from lrq.cli.words import NONE, cut, duration, number, one_line, plural, preview, printable, rate, size
from lrq.console.links import ShownLink, replay_tone, snapshot_tone
from lrq.console.payloads import printable_lines
from lrq.console.ring_watch import member_tone
from queues.clock import iso

#: The most characters of an error or a reason in a table.
_WORDS: Final = 240


def behind(lag: Lag) -> str:
    """Show how far a session is behind: `current`, or the age of its oldest entry."""
    if not lag.entries:
        return "current"
    return f"{'at most ' if lag.is_most else ''}{duration(lag.seconds)} behind"


def entries_behind(lag: Lag) -> str:
    """Show the number of entries, with their bytes."""
    if not lag.entries:
        return NONE
    return f"{'≤ ' if lag.is_most else ''}{number(lag.entries)} ({size(lag.bytes)})"


def age(moment_us: int, now_us: int) -> str:
    """Show the time since a moment."""
    return f"{duration(max(now_us - moment_us, 0) / 1_000_000)} ago" if moment_us else NONE


def link_lag(link: ShownLink) -> str:
    """Show the age of the applied entries at a destination."""
    if not link.is_known:
        return "not heard yet" if not link.session.lag.entries else behind(link.session.lag)
    return behind(link.session.applied_lag)


def words(text: str) -> str:
    """Show a text of others on one line, shortened, without characters that turn the direction of text."""
    return cut(one_line(text), _WORDS)


def query(**values: object) -> str:
    """Return the query of a link, without empty values."""
    return urlencode({name: str(value) for name, value in values.items() if value not in (None, "", False)})


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "age": age,
    "behind": behind,
    "duration": duration,
    "entries_behind": entries_behind,
    "iso": iso,
    "lines": printable_lines,
    "link_lag": link_lag,
    "member_tone": member_tone,
    "number": number,
    "plural": plural,
    "preview": preview,
    "printable": printable,
    "rate": rate,
    "replay_tone": replay_tone,
    "words": words,
    "size": size,
    "snapshot_tone": snapshot_tone,
}
