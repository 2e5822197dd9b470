"""The subscriptions that share the shards of a client, and the shards of each."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from queues.database import dialects
from queues.database.tables.shards import shard_members
from queues.names import ClientName


class Member(NamedTuple):
    """A member and the end of its time, in microseconds since 1970."""

    name: str
    expires_us: int


class Members(NamedTuple):
    """All members in the order of their names, and the database's time of the look."""

    members: list[Member]
    now_us: int


def join(connection: Connection, client: ClientName, member: str, seconds: float) -> Members:
    """Keep *member* for *seconds*, forget members whose time is over, and return all members."""
    now = dialects.of(connection).now_us(connection)
    own = shard_members.c.client == client
    until = now + int(seconds * 1_000_000)
    kept = update(shard_members).where(own, shard_members.c.member == member).values(expires_us=until)
    if not connection.execute(kept).rowcount:
        connection.execute(insert(shard_members).values(client=client, member=member, expires_us=until))
    connection.execute(delete(shard_members).where(own, shard_members.c.expires_us <= now))
    ordered = select(shard_members.c.member, shard_members.c.expires_us).where(own).order_by(shard_members.c.member)
    return Members([Member(*row) for row in connection.execute(ordered)], int(now))


def leave(connection: Connection, client: ClientName, member: str) -> None:
    """Forget *member*, so that the others take its shards."""
    own = shard_members.c.client == client, shard_members.c.member == member
    connection.execute(delete(shard_members).where(*own))


def shards_of(member: str, members: Collection[str], shards: int) -> list[int]:
    """Return the shards of *member*, one of *members*: even shares, and each shard has exactly one member. Pure.

    Example:
        >>> shards_of("b", ["a", "b"], 5)
        [1, 3]
    """
    ordered = sorted(members)
    return list(range(ordered.index(member), shards, len(ordered)))
