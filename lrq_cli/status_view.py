"""A site's status as tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lrq_cli.health import remarks, server_is_alive, troubles
from lrq_cli.rates import Rates
from lrq_cli.status_tables import age, owner_words, receive_queues_table, sessions_table, snapshots_table
from lrq_cli.words import number, one_line, plural, rate, sparkline


def status_view(
    status: Mapping[str, Any], *, where: str = "", rates: Rates | None = None, history: Sequence[float] = ()
) -> RenderableType:
    """Show a status; with *rates*, also how fast things go, and *history*, the log's rates until now."""
    return Group(*_parts(status, where, rates, history))


def _parts(
    status: Mapping[str, Any], where: str, rates: Rates | None, history: Sequence[float]
) -> Iterator[RenderableType]:
    yield _head(status, where, rates, history)
    if status["sessions"]:
        yield Text()
        yield sessions_table(status, rates)
    if status["snapshots"]:
        yield Text()
        yield snapshots_table(status)
    if status["receive_queues"]:
        yield Text()
        yield receive_queues_table(status, rates)
    yield Text()
    yield verdict(status)


def verdict(status: Mapping[str, Any]) -> RenderableType:
    """Say whether all is well, what is not, and what is not as usual."""
    found, remarkable = troubles(status), remarks(status)
    title = (
        Text(f"✗ {plural(len(found), 'trouble')}", style="bold red")
        if found
        else Text("✓ all is well", style="bold green")
    )
    lines = Table.grid(padding=(0, 1))
    for words, style in [*((words, "red") for words in found), *((words, "yellow") for words in remarkable)]:
        lines.add_row(Text("  •", style=style), Text(one_line(words), style=style, overflow="fold"))
    return Group(title, lines) if found or remarkable else title


def _head(status: Mapping[str, Any], where: str, rates: Rates | None, history: Sequence[float]) -> Table:
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim", no_wrap=True)
    head.add_column()
    moment = str(status["at"]).replace("T", " ").partition(".")[0]
    head.add_row("site", Text.assemble((status["site"], "bold"), f"  {where}" if where else "", f"  {moment} UTC"))
    head.add_row("server", _server(status))
    for owner in status["owners"]:
        if owner["lease"] != "server" and owner["alive"]:
            kind, _, name = owner["lease"].partition("/")
            head.add_row(kind, Text(f"{name}: {owner_words(owner['owner'])}"))
    log = status["log"]
    parts = [f"seq {number(log['seq'])}"]
    if log["last_tick_at"]:
        parts.append(f"last tick {age(log['last_tick_at'], status['at'])} ago")
    if log["trimmed_seq"]:
        parts.append(f"trimmed up to {number(log['trimmed_seq'])}")
    if log.get("waiting"):
        parts.append(f"{number(log['waiting'])} in no tick yet")
    head.add_row("log", Text(" · ".join(parts)))
    if rates is not None:
        head.add_row("entries", Text.assemble(f"{rate(rates.of('log')):>10}  ", (sparkline(list(history)), "green")))
    return head


def _server(status: Mapping[str, Any]) -> Text:
    for owner in status["owners"]:
        if owner["lease"] == "server":
            words = f"{owner_words(owner['owner'])}, generation {owner['generation']}"
            if server_is_alive(status):
                return Text.assemble(("● ", "green"), words)
            return Text.assemble(("○ ", "red"), "none works for this site now; the last one was ", words)
    return Text.assemble(("○ ", "yellow"), "none has worked for this site yet")
