"""Let the destination sets follow changed groups of replicas, between two ticks.

The members of a set are rows, which every read of the log uses. So a change holds for old entries too: a late member is
owed each entry that the log still has.
"""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, delete, select, update

from queues.database import dialects
from queues.database.tables.destinations import tag_set_members, tag_sets
from queues.database.tables.log import log_head
from queues.destinations import members
from queues.names import ClientName, SiteId
from queues.replica_groups import Groups, owed_sites
from queues.send_log.closed_groups import settle_names
from queues.send_log.destination_sets import add_members
from queues.send_log.links import closed_links, unclaimed
from queues.send_log.port import Regrouped, SessionKey
from queues.send_log.reads import newest_tick, source_clients, trimmed_seq
from queues.send_log.replica_members import read_groups, store_groups
from queues.send_log.sessions import active_keys, add_session, every_key
from queues.send_log.strangers import lost_by, record_stranger
from queues.states import SessionState


def regroup(connection: Connection, groups: Groups) -> Regrouped:
    """Make every set follow *groups*; return the sessions whose sites are owed other entries from now on.

    No tick may be taken meanwhile. A new member may have lost trimmed entries, so its log does not count as whole. The
    member gets a session of each client that has one with another member.
    """
    if not groups and not read_groups(connection):
        return Regrouped()
    if not dialects.of(connection).one_writer:
        # An earlier sequencer may still take a tick and record sets, which would follow the old groups.
        connection.exec_driver_sql("LOCK TABLE lrq_tag_sets, lrq_ticks IN SHARE ROW EXCLUSIVE MODE")
    before = read_groups(connection)
    if before != groups:
        store_groups(connection, groups)
        settle_names(connection, map(ClientName, closed_links(connection)))
    changed = _follow(connection, before, groups)
    if changed and (newest := newest_tick(connection)) is not None:
        connection.execute(update(log_head).values(regrouped_seq=newest.end_seq))
    sessions = frozenset(every_key(connection))
    new = {*_sites(groups)} - {*_sites(before)}
    _note_strangers(connection, new, sessions)
    _begin(connection, groups, new, sessions)
    return Regrouped(changed & sessions, before != groups)


def regrouped_seq(connection: Connection) -> int:
    """Return the end of the newest tick at the last change of the sets.

    A server may hold ticks up to there in memory with the sets of before.
    """
    return int(connection.execute(select(log_head.c.regrouped_seq)).scalar_one())


def _follow(connection: Connection, before: Groups, groups: Groups) -> frozenset[SessionKey]:
    """Replace the members of all sets that name a group or a member; return the pairs that came or went."""
    named = {*before, *groups, *_sites(before), *_sites(groups)}
    if not named:
        return frozenset()
    changed: set[SessionKey] = set()
    for row in connection.execute(select(tag_sets.c.number, tag_sets.c.client, tag_sets.c.destinations)).all():
        text = members(row.destinations)
        if named.isdisjoint(text):
            continue
        wanted = set(owed_sites(text, groups))
        own = tag_set_members.c.tag_set == row.number
        stored = set(map(SiteId, connection.execute(select(tag_set_members.c.destination).where(own)).scalars()))
        if wanted == stored:
            continue
        connection.execute(delete(tag_set_members).where(own))
        add_members(connection, row.client, row.number, sorted(wanted))
        changed |= {SessionKey(ClientName(row.client), name) for name in wanted ^ stored}
    return frozenset(changed)


def _note_strangers(connection: Connection, new: Iterable[SiteId], sessions: frozenset[SessionKey]) -> None:
    if not trimmed_seq(connection):
        return
    clients = source_clients(connection) | {key.client for key in sessions}
    for key in sorted(SessionKey(client, site) for client in clients for site in new):
        if key not in sessions:
            record_stranger(connection, key)


def _begin(connection: Connection, groups: Groups, new: Collection[SiteId], sessions: frozenset[SessionKey]) -> None:
    """Begin the sessions of *new* members for the clients of the others, also if all their entries are trimmed."""
    over = unclaimed(connection)
    # Sessions begin for these clients only.
    sending, working = source_clients(connection), set(active_keys(connection)) - over
    for members_of in groups.values():
        clients = {key.client for key in working if key.destination in members_of and key.client in sending}
        wanted = {SessionKey(client, site) for client in clients for site in members_of if site in new}
        for key in sorted(wanted - sessions - over):
            add_session(connection, key, SessionState.IDLE, "", lost_seq=lost_by(connection, key))


def _sites(groups: Groups) -> Iterable[SiteId]:
    return (member for listed in groups.values() for member in listed)
