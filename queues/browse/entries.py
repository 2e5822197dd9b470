"""The request and the result of browsing a queue. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.counts import Count
from queues.names import SiteId

#: The kinds of entries.
LOG_ENTRY: Final = "log entry"
SNAPSHOT: Final = "snapshot"
#: A row of a snapshot that is still arriving.
STAGED: Final = "staged"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters and limits of one page.

    `after` is the position of the last entry of the page before. `everything` includes entries that all destinations
    have, until they are trimmed.

    A page has at least one entry. A page ends after `limit` entries, or before its payloads exceed `page_bytes`. Each
    payload counts at most `preview_bytes`.
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
    """One entry of a queue; `payload` holds the first bytes of a payload of `size` bytes.

    `outstanding` names the destinations that still lack the entry. `tick` is None until a tick covers the entry, and in
    a receive queue, where `seq` is the sequence number. `written_us` is 0 if unknown. `headers` is the stored text
    (`queues.entry_headers`), None for an entry without.
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
    headers: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries; `next` is the position for the next page (`--after`), or None at the end."""

    entries: Sequence[Entry]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue; `detail` is a text with further facts."""

    name: str
    outstanding: Count
    oldest_us: int
    detail: str


def fitting(sizes: Sequence[int], wanted: Wanted) -> int:
    """Return the number of entries, of these payload *sizes*, that one page holds."""
    total = 0
    for index, size in enumerate(sizes[: wanted.limit]):
        total += min(size, wanted.preview_bytes)
        if index and total > wanted.page_bytes:
            return index
    return min(len(sizes), wanted.limit)
