"""Trimming a site's log by hand, and showing what goes."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import Engine

from discovery.processes import owner_name, surely_gone
from lr_server import Settings
from lr_server.server import LEASE
from lrq_cli.output import add, table
from lrq_cli.status_tables import owner_words
from lrq_cli.words import duration, number, plural
from queues import leases, snapshots
from queues.clock import iso, now_us
from queues.errors import StoreUnavailableError
from queues.log.opening import open_log
from queues.log.port import Owed, Retention, Trimmed
from queues.log.trimming import Fate, SegmentPlan
from queues.transactions import writing

#: How long the site is this process's at most, in seconds.
_TTL: Final = 60.0
_STYLES: Final = {Fate.FREE: "green", Fate.LOST: "bold red", Fate.CURRENT: "dim"}


def owner_of(engine: Engine) -> str:
    """Return the owner of the site; empty when no server works for it."""
    held = leases.holder(engine, LEASE)
    if held is None or held.expired or surely_gone(held.lease.owner):
        return ""
    return held.lease.owner


def run(engine: Engine, settings: Settings, retention: Retention, *, rotate: bool) -> Trimmed:
    """Own the site for a moment and do what its server would do; raises `StoreUnavailableError` if one takes it."""
    lease = leases.acquire(engine, LEASE, owner_name(), _TTL)
    if lease is None:
        raise StoreUnavailableError("a server has just taken the site: it trims by itself")
    try:
        log = open_log(engine)
        log.rotate(lease, settings.segment_bytes, 0.0 if rotate else settings.segment_seconds)
        trimmed = log.trim(lease, retention)
        while True:
            with writing(engine) as connection:
                if not snapshots.collect_garbage(connection):
                    return trimmed
    finally:
        leases.release(engine, lease)


def trim_facts(site: str, owner: str, done: Trimmed | None, segments: Sequence[SegmentPlan]) -> dict[str, Any]:
    """Return what was done and what is left as JSON says it."""
    return {
        "site": site,
        "owner": owner or None,
        "trimmed": None if done is None else {
            "seq": done.seq, "segments": done.emptied_segments, "laggards": [owed._asdict() for owed in done.laggards],
        },
        "segments": [
            {
                "slot": each.slot, "fate": each.fate.value, "entries": each.rows.entries, "more": each.rows.is_least,
                "oldest_at": iso(each.oldest_us), "lacking": [owed._asdict() for owed in each.lacking],
            }
            for each in segments
        ],
    }  # fmt: skip


def trim_view(site: str, owner: str, done: Trimmed | None, segments: Sequence[SegmentPlan]) -> RenderableType:
    """Show what was done, and the segments that there are now."""
    parts: list[RenderableType] = []
    if done is not None:
        parts.append(
            Text(f"{site}: {plural(done.emptied_segments, 'segment')} emptied, trimmed up to {number(done.seq)}")
        )
        if done.laggards:
            parts.append(Text(f"a full snapshot is needed now by {_names(done.laggards)}", style="bold red"))
    elif owner:
        parts.append(Text(f"{owner_words(owner)} works for {site} and trims by itself; this is how its log stands"))
    if not segments:
        return Group(*parts, Text("the log is empty"))
    made = table("Segments", ("slot", "right"), ("entries", "right"), ("oldest", "right"), "fate", ("", "fold"))
    for each in segments:
        style = _STYLES.get(each.fate, "yellow")
        rows = number(each.rows.entries, is_least=each.rows.is_least)
        age = duration(max(now_us() - each.oldest_us, 0) / 1_000_000)
        add(made, [str(each.slot), rows, age, Text(each.fate.value, style=style), _why(each)])
    return Group(*parts, made)


def _why(each: SegmentPlan) -> str:
    if each.fate is Fate.LOST:
        return f"a full snapshot will be needed by {_names(each.lacking)}"
    if each.fate is Fate.KEPT:
        return f"for {_names(each.lacking)}" if each.lacking else "for destinations that have no session yet"
    return ""


def _names(owed: Sequence[Owed]) -> str:
    return ", ".join(f"{one.destination} ({one.client})" for one in owed)
