"""Search the outstanding entries of a queue by key and time; each search reads a bounded number of entries."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from queues.browse.api import Entry, Page, Wanted
from queues.errors import UsageError

#: The most entries that one search reads.
MOST_READ: Final = 5_000
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Sought:
    """Filters beyond those of `Wanted`: a part of the item key, and two moments of writing (0: any)."""

    key: str = ""
    since_us: int = 0
    until_us: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether every entry matches."""
        return not (self.key or self.since_us or self.until_us)

    def matches(self, entry: Entry) -> bool:
        """Return whether *entry* passes the filters; an entry without a time passes no filter of time."""
        if self.key and self.key not in (entry.item_key or ""):
            return False
        if (self.since_us or self.until_us) and not entry.written_us:
            return False
        return entry.written_us >= self.since_us and (not self.until_us or entry.written_us <= self.until_us)


def search(browse: Callable[[Wanted], Page], wanted: Wanted, sought: Sought) -> Page:
    """Return up to `wanted.limit` matching entries of `browse`, after reading at most `MOST_READ`.

    A page may be empty and still have a next one: then no entry has matched so far.
    """
    if sought.is_empty:
        return browse(wanted)
    found: list[Entry] = []
    after, read = wanted.after, 0
    while read < MOST_READ:
        page = browse(replace(wanted, after=after, limit=_AT_ONCE))
        for entry in page.entries:
            if sought.matches(entry):
                found.append(entry)
                if len(found) == wanted.limit:
                    return Page(found, entry.position)
        if page.next is None:
            return Page(found)
        after, read = page.next, read + len(page.entries) + 1
    return Page(found, after)


def moment_us(text: str) -> int:
    """Return the microseconds of a field for date and time (UTC unless it says otherwise); 0 for an empty one."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write it as 2026-01-31T13:45") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
