"""Parked transactions as a table, and as JSON."""

import base64
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.words import NONE, duration, number, one_line, preview, printable, size
from queues.clock import iso, now_us
from queues.receive.parked import ParkedTransaction
from queues.receive.received_rows import ReceivedRow


def parked_view(found: Sequence[ParkedTransaction]) -> RenderableType:
    """Show parked transactions, and the commands that retry or discard them."""
    if not found:
        return Text("nothing is parked")
    made = table(
        "Parked", ("id", "right"), "client", "from", "kind", ("sequence", "right"), ("entries", "right"),
        ("bytes", "right"), ("parked", "right"), ("tries", "right"), ("error", "fold"),
    )  # fmt: skip
    for each in found:
        age = duration(max(now_us() - each.parked_us, 0) / 1_000_000)
        count = number(max(each.attempts, each.tries))
        tries = Text("retry planned", style="yellow") if each.retrying else Text(count)
        error = Text(one_line(each.error) + at(each.place), style="red")
        add(
            made,
            [
                str(each.id),
                each.client,
                each.source,
                each.kind,
                number(each.sequence),
                number(each.entries),
                size(each.bytes),
                age,
                tries,
                error,
            ],
        )
    return Group(made, Text("lrq park retry ID …   lrq park discard ID …", style="dim"))


def at(place: str) -> str:
    """Return the place of an error in brackets, as the end of a sentence; empty for an unknown one."""
    return f" ({one_line(place)})" if place else ""


def moment(us: int) -> str | None:
    """Return a time for JSON; None for an unknown one."""
    return iso(us) if us else None


def failure_lines(first_us: int, last_us: int) -> list[Text]:
    """Tell the times of the first and the last failure, if both are known."""
    return [Text(f"failed first {iso(first_us)}, last {iso(last_us)}", style="dim")] if first_us and last_us else []


def trace_view(trace: str) -> list[Text]:
    """Show a traceback, if there is one."""
    lines = "\n".join(map(printable, trace.split("\n")))
    return [Text(), Text("Traceback", style="bold"), Text(lines, style="dim")] if trace else []


def parked_facts(each: ParkedTransaction) -> dict[str, Any]:
    """Return an item of `parked` in `lrq park list --json`."""
    return {
        "id": each.id,
        "client": each.client,
        "source": each.source,
        "kind": each.kind,
        "history": each.history,
        "sequence": each.sequence,
        "entries": each.entries,
        "bytes": each.bytes,
        "error": each.error,
        "tries": each.tries,
        "retrying": each.retrying,
        "parked_at": iso(each.parked_us),
        "error_class": each.error_class,
        "place": each.place,
        "attempts": max(each.attempts, each.tries),
        "first_failed_at": moment(each.first_us),
        "last_failed_at": moment(each.last_us),
    }


def contents_view(
    found: ParkedTransaction, rows: Sequence[ReceivedRow], trace: str, *, preview_bytes: int
) -> RenderableType:
    """Show one parked transaction with its traceback and its entries.

    Each payload has been cut after *preview_bytes* bytes.
    """
    made = table("Entries", ("sequence", "right"), "item key", "payload")
    for row in rows:
        key = NONE if row.item_key is None else one_line(row.item_key)
        # A payload that fills the limit may go on.
        whole = len(row.payload) + (len(row.payload) == preview_bytes)
        add(made, [number(row.seq), key, preview(row.payload, whole) if row.payload else "(empty)"])
    more = found.entries - len(rows)
    hint = [Text(f"and {number(more)} more: --limit {found.entries}", style="dim")] if more > 0 else []
    return Group(
        parked_view([found]), *failure_lines(found.first_us, found.last_us), *trace_view(trace), Text(), made, *hint
    )


def content_facts(row: ReceivedRow) -> dict[str, Any]:
    """Return an item of `entries` in `lrq park show --json`; the payload is in base64."""
    return {
        "sequence": row.seq,
        "transaction": row.transaction_seq,
        "committed_at": iso(row.committed_us) if row.committed_us else None,
        "item_key": row.item_key,
        "partition_key": row.partition_key,
        "headers": row.headers,
        "payload": base64.b64encode(row.payload).decode("ascii"),
    }
