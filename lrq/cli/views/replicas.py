"""The groups of replicas as tables."""

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.replica_actions import Replicas
from lrq.cli.words import NONE, duration, number


def replicas_view(found: Replicas) -> RenderableType:
    """Show the groups that the site sends to, and the words of sources about the groups that it is in."""
    shown: list[RenderableType] = []
    if found.groups:
        groups = table("Replicas", "name", "serves", ("generation", "right"), ("members", "fold"))
        for name, members in found.groups.items():
            active = found.active.get(name)
            who = [NONE, NONE] if active is None else [active.member, number(active.generation)]
            add(groups, [name, *who, ", ".join(members)])
        shown.append(groups)
    if found.told:
        words = table("Told by sources", "from", "name", "serves", ("generation", "right"), ("heard", "fold"))
        for told in found.told:
            heard = f"{duration(told.age_us / 1_000_000)} ago"
            add(words, [told.source, told.name, told.member, number(told.generation), heard])
        shown.append(words)
    return Group(*shown) if shown else Text("there are no replicas")
