"""The member of a group of replicas that serves, as a source has told this site."""

from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from queues.database import dialects
from queues.database.tables.replicas import told_members
from queues.names import ClientName, SiteId


class ToldMember(NamedTuple):
    """The word of *source*: since `generation`, `member` serves for the group `name`; heard `age_us` ago."""

    source: SiteId
    name: SiteId
    member: SiteId
    generation: int
    age_us: int


def note(
    connection: Connection, client: ClientName, source: SiteId, *, name: SiteId, member: SiteId, generation: int
) -> None:
    """Store the word of *source* in a session of *client*; a lower generation than before changes nothing."""
    own = (told_members.c.source == source, told_members.c.client == client, told_members.c.name == name)
    values = {"member": member, "generation": generation, "told_us": dialects.of(connection).now_us(connection)}
    is_later = told_members.c.generation <= generation
    if connection.execute(update(told_members).where(*own, is_later).values(values)).rowcount:
        return
    if connection.execute(select(told_members.c.name).where(*own)).first() is None:
        connection.execute(insert(told_members).values(source=source, client=client, name=name, **values))


def newest_generation(connection: Connection, client: ClientName, source: SiteId) -> int:
    """Return the newest generation that a session of *client* has told; 0 for none."""
    own = (told_members.c.source == source, told_members.c.client == client)
    return connection.execute(select(func.max(told_members.c.generation)).where(*own)).scalar() or 0


def read_told(connection: Connection) -> list[ToldMember]:
    """Return the newest word of each source about each group, by group and source.

    Sessions of several clients tell the same; the latest of those with the highest generation counts.
    """
    now = dialects.of(connection).now_us(connection)
    columns = [told_members.c[name] for name in ("source", "name", "member", "generation", "told_us")]
    ordered = select(*columns).order_by(
        told_members.c.name, told_members.c.source, told_members.c.generation.desc(), told_members.c.told_us.desc()
    )
    found: dict[tuple[str, str], ToldMember] = {}
    for source, name, member, generation, told_us in connection.execute(ordered):
        told = ToldMember(SiteId(source), SiteId(name), SiteId(member), generation, max(now - told_us, 0))
        found.setdefault((name, source), told)
    return list(found.values())
