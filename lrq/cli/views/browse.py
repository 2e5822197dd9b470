"""Queues and their entries as tables, and as JSON."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.words import NONE, cut, duration, number, one_line, preview, size
from queues import names
from queues.browse.api import Entry, Page, QueueSummary
from queues.clock import iso, now_us
from queues.entry_headers import MAX_STORED_BYTES, parse
from queues.errors import CorruptFrameError

#: Maximum number of tags shown for one entry.
_TAGS: Final = 3
#: Maximum number of characters shown of an item key.
_KEY: Final = 24
#: Maximum number of headers shown for one entry, and of characters shown of each.
_HEADERS: Final = 3
_HEADER: Final = 40


def summaries_view(summaries: Sequence[QueueSummary]) -> Table:
    """Show one row for each queue."""
    made = table("Queues", "queue", ("outstanding", "right"), ("oldest", "right"), ("", "fold"))
    for summary in summaries:
        count = summary.outstanding
        words = number(count.entries, is_least=count.is_least) if count.entries or count.is_least else NONE
        style = "yellow" if count.entries else "dim"
        add(made, [summary.name, Text(words, style=style), Text(_age(summary.oldest_us), style=style), summary.detail])
    return made


def entries_view(queue: str, page: Page, *, full: bool) -> RenderableType:
    """Show one page of entries, and the position after which the next page begins."""
    if not page.entries:
        words = f"{queue}: nothing is outstanding"
        if page.next is not None:
            words = f"{queue}: no entry matches so far"
        return Group(Text(words), *_hint(page))
    is_log = queue == names.SEND_LOG_ENTRIES
    has_keys = any(entry.item_key is not None for entry in page.entries)
    has_headers = any(entry.headers is not None for entry in page.entries)
    columns = ["position", *(["seq"] if is_log else []), "tags", "client", *(["item key"] if has_keys else [])]
    columns += ["headers"] if has_headers else []
    made = table(queue, *columns, ("age", "right"), ("size", "right"), ("payload", "fold" if full else "cut"))
    for entry in page.entries:
        add(made, _cells(entry, is_log=is_log, has_keys=has_keys, has_headers=has_headers, full=full))
    return Group(made, *_hint(page))


def page_facts(page: Page) -> dict[str, Any]:
    """Return a page for `lrq browse --json`; payloads are in base64."""
    return {"entries": [_facts(entry) for entry in page.entries], "next": page.next}


def summary_facts(summary: QueueSummary) -> dict[str, Any]:
    """Return an item of `queues` in `lrq browse --json`."""
    return {
        "name": summary.name,
        "outstanding": summary.outstanding.entries,
        "more": summary.outstanding.is_least,
        "oldest_at": iso(summary.oldest_us) if summary.oldest_us else None,
        "detail": summary.detail,
    }


def _hint(page: Page) -> Iterator[Text]:
    if page.next is not None:
        yield Text(f"there is more: --after {page.next}", style="dim")


def _cells(entry: Entry, *, is_log: bool, has_keys: bool, has_headers: bool, full: bool) -> list[str | Text]:
    tick = entry.tick
    seq = [Text(f"≤ {number(tick.end_seq)}") if tick else Text("no tick", style="yellow")] if is_log else []
    return [
        entry.position,
        *seq,
        _tags(entry, is_log=is_log, full=full),
        entry.client,
        *([_item_key(entry)] if has_keys else []),
        *([_headers(entry, full=full)] if has_headers else []),
        _age(entry.written_us),
        size(entry.size),
        Text(preview(entry.payload, entry.size) if entry.size else "(empty)", style="" if entry.size else "dim"),
    ]


def _item_key(entry: Entry) -> Text:
    key = entry.item_key
    return Text(NONE, style="dim") if key is None else Text(cut(one_line(key), _KEY), style="cyan")


def _headers(entry: Entry, *, full: bool) -> Text:
    """Show one header a line."""
    if entry.headers is None:
        return Text(NONE, style="dim")
    found = _parsed(entry.headers)
    lines = [f"{name}: {value}" for name, value in found.items()] if isinstance(found, dict) else [found]
    shown = [Text(cut(one_line(line), MAX_STORED_BYTES if full else _HEADER), style="cyan") for line in lines]
    more = len(shown) - _HEADERS
    if more > 0 and not full:
        shown[_HEADERS:] = [Text(f"and {number(more)} more", style="dim")]
    return Text("\n").join(shown)


def _parsed(headers: str) -> dict[str, str] | str:
    """Return the headers of an entry; the stored text itself if it is damaged."""
    try:
        return parse(headers)
    except CorruptFrameError:
        return headers


def _tags(entry: Entry, *, is_log: bool, full: bool) -> Text:
    """Show one tag a line; tags of sites that have acknowledged a log entry are dim."""
    outstanding = {names.log_entry_tag(name) for name in entry.outstanding}
    shown = entry.tags if full else entry.tags[:_TAGS]
    lines = [Text(tag, style="dim" if is_log and tag not in outstanding else "") for tag in shown]
    if len(shown) < len(entry.tags):
        lines.append(Text(f"and {number(len(entry.tags) - len(shown))} more", style="dim"))
    return Text("\n").join(lines)


def _age(moment_us: int) -> str:
    return duration(max(now_us() - moment_us, 0) / 1_000_000) if moment_us else NONE


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "kind": entry.kind,
        "client": entry.client,
        "source": entry.source,
        "tags": list(entry.tags),
        "outstanding": list(entry.outstanding),
        "transaction": entry.transaction,
        "tick": entry.tick._asdict() if entry.tick else None,
        "seq": entry.seq,
        "item_key": entry.item_key,
        "partition_key": entry.partition_key,
        "headers": {} if entry.headers is None else _parsed(entry.headers),
        "written_at": iso(entry.written_us) if entry.written_us else None,
        "size": entry.size,
        "payload": base64.b64encode(entry.payload).decode("ascii"),
        "truncated": len(entry.payload) < entry.size,
    }
