"""Trim a site's log by hand, and show its segments."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import Engine

from discovery.log_reads import read_ordering, read_unknown
from discovery.log_status import OrderingStatus, UnknownStatus
from discovery.processes import owner_name, surely_gone
from discovery.server_status import SERVER_LEASE
from lr_server import Settings
from lrq.cli.output import add, table
from lrq.cli.peers_view import read_peers
from lrq.cli.status_tables import owner_words
from lrq.cli.words import duration, number, plural
from queues import send_snapshot
from queues.clock import iso, now_us
from queues.database import leases, servers
from queues.database.peers import read_table
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError, UsageError
from queues.names import SiteId
from queues.send_log import unordered
from queues.send_log.known_sites import read_known
from queues.send_log.opening import open_log
from queues.send_log.port import Retention, SessionKey, TrimResult
from queues.send_log.ring.member_rows import rank_at
from queues.send_log.trim_plan import Fate, SegmentPlan
from queues.send_log.unknown import forget_dropped

#: Duration of the lease on the site, in seconds.
_TTL: Final = 60.0
_STYLES: Final = {Fate.FREE: "green", Fate.LOST: "bold red", Fate.UNORDERED: "bold red", Fate.CURRENT: "dim"}


def owner_of(engine: Engine) -> str:
    """Return the sequencer of the site, or else another server that works; an empty string if none works."""
    held = leases.holder(engine, SERVER_LEASE)
    if held is not None and not held.expired and not surely_gone(held.lease.owner):
        return held.lease.owner
    # A server without a sequencer soon takes the lease. Until then it must not find this command as an older lrq.
    working = (name for name in servers.look(engine).living if not surely_gone(name))
    return next(working, "")


def run(engine: Engine, settings: Settings, retention: Retention, *, rotate: bool) -> TrimResult:
    """Take the site's lease and trim as its server does; raises `StoreUnavailableError` if a server is faster.

    Raises `UsageError` for the file of a ring's member, where only the servers know which entries may go.
    """
    with reading(engine) as connection:
        if rank_at(connection) is not None:
            raise UsageError("the servers of a ring trim their files: set trim in the table [ring] of each")
    before = leases.holder(engine, SERVER_LEASE)
    if before and not before.expired and surely_gone(before.lease.owner):
        leases.release(engine, before.lease, seen_us=before.expires_us)
    lease = leases.acquire(engine, SERVER_LEASE, owner_name(), _TTL)
    if lease is None:
        raise StoreUnavailableError("a server has just taken the site: the server trims by itself")
    try:
        log = open_log(engine)
        log.rotate(lease, settings.segment_bytes, 0.0 if rotate else settings.segment_seconds)
        trimmed = log.trim(lease, retention)
        while True:
            with writing(engine) as connection:
                if not send_snapshot.collect_garbage(connection):
                    return trimmed
    finally:
        # The status names the last server of the site, and this command is none.
        leases.release(engine, lease, last_owner=before.lease.owner if before else "")


def decide_unordered(engine: Engine, *, send: bool, drop: bool) -> dict[str, int]:
    """Send or delete the unordered entries; return the numbers of entries sent and deleted."""
    return {"sent": unordered.send(engine) if send else 0, "deleted": unordered.drop(engine) if drop else 0}


def counted(decided: dict[str, int]) -> list[str]:
    """Return one sentence for each number of unordered entries that is not zero."""
    return [
        f"{plural(number, 'unordered entry', 'unordered entries')} {what}" for what, number in decided.items() if number
    ]


def recorded_ordering(engine: Engine) -> OrderingStatus:
    """Return the unordered entries and disabled triggers, as `read_status` does."""
    with reading(engine) as connection:
        return read_ordering(connection)


def recorded_unknown(engine: Engine) -> tuple[UnknownStatus, ...]:
    """Return the entries for unknown destinations, as `read_status` does."""
    with reading(engine) as connection:
        return read_unknown(connection)


def known_peers(engine: Engine, settings: Settings) -> frozenset[SiteId] | None:
    """Return the peers of the last server, of *settings* and of the table; None before the first server has worked.

    In doubt a site counts as a peer, so that its entries are kept. Raises the errors of `read_peers`.
    """
    with reading(engine) as connection:
        known, table_of_peers = read_known(connection), read_table(connection)
    if known is None:
        return None
    return known.peers.union(read_peers(settings, lambda: engine).peers, table_of_peers.by_site)


def forget_dropped_entries(engine: Engine) -> int:
    """Forget the counts of dropped entries; return the sum of them."""
    with writing(engine) as connection:
        return forget_dropped(connection)


def trim_facts(site: str, owner: str, done: TrimResult | None, segments: Sequence[SegmentPlan]) -> dict[str, Any]:
    """Return the JSON of `lrq trim --json`: the result of the trim and the remaining segments."""
    return {
        "site": site,
        "owner": owner or None,
        "trimmed": None if done is None else {
            "seq": done.seq, "segments": done.emptied_segments, "laggards": [owed._asdict() for owed in done.laggards],
            "unknown": [owed._asdict() | {"entries": count} for owed, count in done.dropped_unknown.items()],
        },
        "segments": [
            {
                "slot": each.partition, "fate": each.fate.value,
                "entries": each.rows.entries, "more": each.rows.is_least,
                "oldest_at": iso(each.oldest_us), "lacking": [owed._asdict() for owed in each.lacking],
                "unordered": each.has_unordered, "unknown": [owed._asdict() for owed in each.unknown],
            }
            for each in segments
        ],
    }  # fmt: skip


def trim_view(
    site: str, owner: str, done: TrimResult | None, segments: Sequence[SegmentPlan], words: Sequence[str]
) -> RenderableType:
    """Show *words* about unordered entries, the result of the trim, and the remaining segments."""
    parts: list[RenderableType] = [Text(each, style="bold red") for each in words]
    if done is not None:
        parts.append(
            Text(f"{site}: {plural(done.emptied_segments, 'segment')} emptied, trimmed up to {number(done.seq)}")
        )
        if done.laggards:
            parts.append(Text(f"a full snapshot is needed now by {_names(done.laggards)}", style="bold red"))
        if done.dropped_unordered:
            gone = plural(done.dropped_unordered, "entry", "entries")
            parts.append(Text(f"{gone} that had no place in the order of commits went unsent", style="bold red"))
    elif owner:
        parts.append(Text(f"{owner_words(owner)} works for {site} and trims by itself; the log now"))
    if not segments:
        return Group(*parts, Text("the log is empty"))
    made = table("Segments", ("partition", "right"), ("entries", "right"), ("oldest", "right"), "fate", ("", "fold"))
    for each in segments:
        style = _STYLES.get(each.fate, "yellow")
        rows = number(each.rows.entries, is_least=each.rows.is_least)
        age = duration(max(now_us() - each.oldest_us, 0) / 1_000_000)
        add(made, [str(each.partition), rows, age, Text(each.fate.value, style=style), _why(each)])
    return Group(*parts, made)


def _why(each: SegmentPlan) -> str:
    if each.fate is Fate.LOST:
        parts = [f"a full snapshot will be needed by {_names(each.lacking)}"] * bool(each.lacking)
        if each.unknown:
            parts.append(f"entries will be dropped for {_names(each.unknown)}, which is no peer")
        return "; ".join([*parts, *["unordered entries will go unsent"] * each.has_unordered])
    if each.fate is Fate.UNORDERED:
        return "until retention, `lrq trim --send-unordered` or `--drop-unordered`"
    if each.fate is Fate.REPLAYABLE:
        return "until acknowledged_retention_seconds"
    if each.fate is Fate.KEPT:
        peers = [owed for owed in each.lacking if owed not in each.unknown]
        parts = [f"for {_names(peers)}"] * bool(peers)
        if each.unknown:
            parts.append(f"for {_names(each.unknown)}, which is no peer, until unknown_retention_seconds")
        return "; ".join(parts) or "for destinations that have no session yet"
    return ""


def _names(owed: Sequence[SessionKey]) -> str:
    return ", ".join(f"{one.destination} ({one.client})" for one in owed)
