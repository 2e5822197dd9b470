"""The segments of a log, and the result of a trim, for people and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.views.status_tables import owner_words
from lrq.cli.words import duration, number, plural
from queues.clock import iso, now_us
from queues.send_log.port import SessionKey, TrimResult
from queues.send_log.trim_plan import Fate, SegmentPlan

_STYLES: Final = {Fate.FREE: "green", Fate.LOST: "bold red", Fate.UNORDERED: "bold red", Fate.CURRENT: "dim"}


def counted(decided: dict[str, int]) -> list[str]:
    """Return one sentence for each number of unordered entries that is not zero."""
    return [
        f"{plural(number, 'unordered entry', 'unordered entries')} {what}" for what, number in decided.items() if number
    ]


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
