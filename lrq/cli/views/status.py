"""A site's status as tables."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from discovery.server_status import SERVER_LEASE, SiteServer
from discovery.site_status import SiteStatus
from lrq.cli.health import remarks, server_is_alive, troubles
from lrq.cli.views.rates import Rates
from lrq.cli.views.replays import replays_table
from lrq.cli.views.resends import resends_table
from lrq.cli.views.status_tables import (
    age,
    owner_words,
    receive_queues_table,
    sessions_table,
    shards_table,
    snapshots_table,
)
from lrq.cli.words import SERVE, number, one_line, plural, rate, some, sparkline
from queues.clock import iso
from queues.leadership import TopologyFacts


def status_view(
    status: SiteStatus,
    *,
    where: str = "",
    rates: Rates | None = None,
    history: Sequence[float] = (),
    beside: Sequence[str] = (),
) -> RenderableType:
    """Show a status, with troubles *beside* its own ones: those of a disk that lacks room.

    With *rates*, also show entries per second and *history*, the log's past rates.
    """
    return Group(*_parts(status, where, rates, history), verdict(status, beside))


def _parts(status: SiteStatus, where: str, rates: Rates | None, history: Sequence[float]) -> Iterator[RenderableType]:
    yield _head(status, where, rates, history)
    if status.sessions:
        yield Text()
        yield sessions_table(status, rates)
    if status.snapshots:
        yield Text()
        yield snapshots_table(status)
    if status.receive_queues:
        yield Text()
        yield receive_queues_table(status, rates)
    if any(queue.shards for queue in status.receive_queues):
        yield Text()
        yield shards_table(status)
    if status.replays:
        yield Text()
        yield replays_table(status.replays, status.at_us)
    if status.resends:
        yield Text()
        yield resends_table(status.resends, status.at_us)
    yield Text()


def verdict(status: SiteStatus, beside: Sequence[str] = ()) -> RenderableType:
    """Show whether all is well, then the troubles, also those *beside* the status, and the remarks."""
    found, remarkable = [*beside, *troubles(status, is_full=bool(beside))], remarks(status)
    if found:
        title = Text(f"✗ {plural(len(found), 'trouble')}", style="bold red")
    elif server_is_alive(status):
        title = Text("✓ all is well", style="bold green")
    elif status.is_other_member:
        title = Text("○ this member of the ring does not lead: see `lrq ring status`", style="bold yellow")
    else:
        title = Text(f"○ no server works for this site: {SERVE}", style="bold yellow")
    told: list[RenderableType] = [title]
    if found:
        told.append(_listed(found, "red"))
    if remarkable:
        told += [Text(f"○ {plural(len(remarkable), 'remark')}", style="yellow"), _listed(remarkable, "yellow")]
    return Group(*told)


def _listed(sentences: Sequence[str], style: str) -> Table:
    lines = Table.grid(padding=(0, 1))
    for words in sentences:
        lines.add_row(Text("  •", style=style), Text(one_line(words), style=style, overflow="fold"))
    return lines


def _head(status: SiteStatus, where: str, rates: Rates | None, history: Sequence[float]) -> Table:
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim", no_wrap=True)
    head.add_column()
    moment = iso(status.at_us).replace("T", " ").partition(".")[0]
    head.add_row("site", Text.assemble((status.site, "bold"), f"  {where}" if where else "", f"  {moment} UTC"))
    for name, words in _servers(status):
        head.add_row(name, words)
    for kind, words in _owners(status):
        head.add_row(kind, words)
    log = status.log
    parts = [f"seq {number(log.seq)}"]
    if log.last_tick_us is not None:
        parts.append(f"last tick {age(log.last_tick_us, status.at_us)} ago")
    if log.trimmed_seq:
        parts.append(f"trimmed up to {number(log.trimmed_seq)}")
    if log.waiting:
        parts.append(f"{number(log.waiting)} in no tick yet")
    head.add_row("log", Text(" · ".join(parts)))
    for group in status.replicas:
        head.add_row(
            "replicas", Text(f"{group.name}: {group.active or 'no member'} serves, of {', '.join(group.members)}")
        )
    for client in dict.fromkeys(pair.client for pair in status.quiet):
        sites = [pair.destination for pair in status.quiet if pair.client == client]
        head.add_row("quiet", Text(f"{client} has nothing for {some(sites)} yet", style="dim"))
    if rates is not None:
        head.add_row("entries", Text.assemble(f"{rate(rates.of('log')):>10}  ", (sparkline(list(history)), "green")))
    return head


def _servers(status: SiteStatus) -> Iterator[tuple[str, Text]]:
    """Yield the rows of the servers, and of the places of their peers."""
    if len(status.living) > 1:
        yield from (("server", _shared(server, status)) for server in status.living)
    else:
        yield "server", _server(status)
    told = (server.topology for server in status.living if server.topology.source)
    yield from (("peers", Text(words)) for words in dict.fromkeys(map(topology_words, told)))


def _owners(status: SiteStatus) -> Iterator[tuple[str, Text]]:
    """Yield the row of a ring's member, and those of the owners beside the server."""
    if status.ring_rank is not None:
        yield "ring", Text(f"rank {status.ring_rank}; `lrq ring status` asks all members")
    for owner in status.owners:
        if owner.lease != SERVER_LEASE and owner.alive:
            kind, _, name = owner.lease.partition("/")
            yield kind, Text(f"{name}: {owner_words(owner.owner)}")


def topology_words(facts: TopologyFacts) -> str:
    """Describe the place where a server reads its peers, and their version."""
    version = f"version {number(facts.version)}" if facts.version else "not read yet"
    return f"from {one_line(facts.source)}, {version}"


def _shared(server: SiteServer, status: SiteStatus) -> Text:
    """Show one of several servers, and its part of the work."""
    words = f"{owner_words(server.name)}, since {age(server.since_us, status.at_us)}"
    led = f", leads {plural(server.ranges, 'range')}"
    ticks = ", takes the ticks" if server.sequencer else ""
    return Text.assemble(("● ", "green"), words, led, ticks)


def _server(status: SiteStatus) -> Text:
    owner = status.server_owner
    if owner is None:
        return Text.assemble(("○ ", "yellow"), "none has worked for this site yet")
    words = f"{owner_words(owner.owner)}, generation {owner.generation}"
    if server_is_alive(status):
        return Text.assemble(("● ", "green"), words)
    return Text.assemble(("○ ", "red"), "none works for this site now; the last one was ", words)
