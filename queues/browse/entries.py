"""What browsing a queue asks for and what it shows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.names import SiteId

#: Kinds of entries.
LOG_ENTRY: Final = "log entry"
SNAPSHOT: Final = "snapshot"
#: A row of a snapshot that is still arriving.
STAGED: Final = "staged"

#: Entries are counted up to this number; a queue may hold any number of them.
COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries to show, and how much of them.

    `after` is the position of the last entry seen. `everything` includes what every destination has already, but is
    not trimmed yet. A page ends after `limit` entries, or when its payloads, `preview_bytes` of each, would be above
    `page_bytes`; it has at least one.
    """

    after: str = ""
    limit: int = 50
    client: str | None = None
    destination: str | None = None
    everything: bool = False
    preview_bytes: int = 128
    page_bytes: int = 16 * 1024 * 1024


class TickSpan(NamedTuple):
    """The tick that holds an entry: its rows have the sequence numbers `start_seq` + 1 to `end_seq`."""

    number: int
    start_seq: int
    end_seq: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a queue; `payload` is the beginning of a payload of `size` bytes.

    `outstanding` names the destinations that do not have it yet. `tick` is None while no tick holds it, and at a
    sink, where `seq` counts instead. `written_us` is 0 where that is not known.
    """

    position: str
    kind: str
    client: str
    source: str
    tags: tuple[str, ...]
    outstanding: tuple[SiteId, ...]
    transaction: int | None
    tick: TickSpan | None
    seq: int | None
    item_key: str | None
    partition_key: str | None
    written_us: int
    size: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries; where the next page begins (`--after`), or None when there are no more."""

    entries: Sequence[Entry]
    next: str | None = None


class Count(NamedTuple):
    """A number of entries; `is_least`: there are more, which were not counted."""

    entries: int
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue: `detail` says in words what else is worth knowing."""

    name: str
    outstanding: Count
    oldest_us: int
    detail: str


def fitting(sizes: Sequence[int], wanted: Wanted) -> int:
    """Return how many of the entries with these payload *sizes* make up a page."""
    total = 0
    for index, size in enumerate(sizes[: wanted.limit]):
        total += min(size, wanted.preview_bytes)
        if index and total > wanted.page_bytes:
            return index
    return min(len(sizes), wanted.limit)
