"""The links of a site as tables."""

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.links import Links
from lrq.cli.output import add, table
from lrq.cli.words import one_line


def links_view(found: Links) -> RenderableType:
    """Show the links from the site, and the receive queues of other sites."""
    shown: list[RenderableType] = []
    if found.outgoing:
        links = table("Links", "client", "to", "state", ("", "fold"))
        for link in found.outgoing:
            add(links, [link.key.client, link.key.destination, link.state, one_line(link.reason)])
        shown.append(links)
    if found.incoming:
        ends = table("Receive queues", "client", "from", "state", ("", "fold"))
        for end in found.incoming:
            add(ends, [end.queue.client, end.queue.source, end.state.value, one_line(end.reason)])
        shown.append(ends)
    return Group(*shown) if shown else Text("there is no link")
