"""Describe the troubles of a site in sentences. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from discovery.log_status import OrderingStatus, UnknownStatus
from discovery.receive_status import FailureStatus, ReceiveQueueStatus
from discovery.session_status import STALL_SECONDS, ReplicasStatus, SessionStatus
from discovery.site_status import SiteStatus
from lr_server.protocol.negotiation import without_provider
from lrq.cli.words import (
    LOGGED_AGAIN,
    NO_ALTERING,
    SERVE,
    altered_by_others,
    duration,
    emptied_by_a_crash,
    hidden_from_the_role,
    number,
    plural,
    some,
)
from queues.database.hidden_rows import SHOW_ALL
from queues.leadership import TopologyFacts
from queues.names import ClientName
from queues.send_log.trim_blockers import TrimBlocker, long_ones
from queues.states import SessionState, SnapshotState

#: States without a remark: healthy, inactive, or already reported as a trouble.
_UNREMARKABLE = (
    SessionState.LOG_ENTRY_SYNC, SessionState.FINISHED, SessionState.INACTIVE, SessionState.FAILED,
)  # fmt: skip
#: In this time another server has taken over a lease that has ended, in microseconds.
_TAKEN_OVER_US: Final = 10_000_000
#: The cure on a full disk, in place of a start.
_UNTOLD: Final = ", or has the room to tell so: free some space first"
#: Such a session gets no new entries.
_OVER = (SessionState.DRAINING, SessionState.FINISHED, SessionState.INACTIVE)


def troubles(status: SiteStatus, *, is_full: bool = False) -> list[str]:
    """Return one sentence for each trouble; an empty list means that all is well.

    *is_full*: the disk of the database lacks room, so servers and subscribers may work and be unable to say so.
    A member of a ring that does not lead knows nothing of the sessions now: the leader tells of them.
    """
    if status.is_other_member:
        return []
    return [
        *_standbys(status),
        *_server(status, is_full=is_full),
        *_topology(status),
        *dict.fromkeys(each.sink_trouble for each in status.living if each.sink_trouble),
        *_replicas(status),
        *unordered(status.log.ordering),
        *unknown(status.log.unknown),
        *_unlogged(status.log.unlogged),
        *_hiding(status.log.hiding),
        *_altering(status.log.altering),
        *blocked_trim(long_ones(status.log.trim_blockers)),
        *_sessions(status),
        *_unprovided(status),
        *_snapshots(status),
        *_queues(status, is_full=is_full),
    ]


def remarks(status: SiteStatus) -> list[str]:
    """Return one sentence for each session that is not yet in log-entry sync and that is no trouble."""
    if status.is_other_member:
        return []
    return [
        f"{_name(session)}: {session.state_text}"
        for session in status.sessions
        if session.state not in _UNREMARKABLE and not session.stalled and not session.unprovided
    ]


def server_is_alive(status: SiteStatus) -> bool:
    """Return whether a server works for the site."""
    owner = status.server_owner
    return bool(status.living) or (owner is not None and owner.alive)


def _standbys(status: SiteStatus) -> Iterator[str]:
    if status.standbys is not None and status.standbys.why_commits_wait:
        yield status.standbys.why_commits_wait


def _server(status: SiteStatus, *, is_full: bool) -> Iterator[str]:
    owner = status.server_owner
    if server_is_alive(status):
        # The next server takes the lease of a dead one within seconds.
        silent_us = 0 if owner is None or owner.lapsed_us is None else status.at_us - owner.lapsed_us
        if silent_us > _TAKEN_OVER_US and not any(each.sequencer for each in status.living):
            silent = duration(silent_us / 1_000_000)
            yield f"no server has renewed the lease of the sequencer for {silent}: the logs of the servers tell why"
        return
    if any(session.lag.entries for session in status.sessions) or status.log.waiting:
        yield f"no server works for this site, though it owes entries{_UNTOLD if is_full else f': {SERVE}'}"
    elif owner is not None and owner.lapsed_us is not None:
        silent = duration(max(status.at_us - owner.lapsed_us, 0) / 1_000_000)
        yield f"the last server was gone without a stop {silent} ago{_UNTOLD if is_full else f': {SERVE}'}"


def _topology(status: SiteStatus) -> Iterator[str]:
    """Yield one sentence for each reason why a server keeps earlier peers, and one for different places of peers."""
    kept: dict[TopologyFacts, None] = dict.fromkeys(each.topology for each in status.living if each.topology.trouble)
    for facts in kept:
        stays = f"version {facts.version} of the peers stays" if facts.version else "no peers are known yet"
        yield f"the peers cannot be read from {facts.source}, and {stays}: {facts.trouble}"
    sources = sorted({each.topology.source for each in status.living if each.topology.source})
    if len(sources) > 1:
        yield f"the servers read their peers from different places ({', '.join(sources)}): set `topology` alike"


def _replicas(status: SiteStatus) -> Iterator[str]:
    """Yield one sentence for each group whose serving site is no member, or gets nothing more while others do."""
    for group in status.replicas:
        for client in _ended_at(status, group):
            yield (
                f"the link of {client} to {group.active}, which serves for {group.name}, has ended, and other members "
                f"go on: promote one of them, or run `lrq link begin {group.active}`"
            )
        if group.active not in group.members:
            yield (
                f"{group.active or 'no site'} serves for {group.name}, and is no member of it: promote one of "
                f"{', '.join(group.members)} (`lrq replica promote`)"
            )


def _ended_at(status: SiteStatus, group: ReplicasStatus) -> list[ClientName]:
    """Return the clients whose link to the serving member has ended, while one to another member goes on."""
    here = {
        each.client
        for each in status.sessions
        if each.destination == group.active and each.state is SessionState.FINISHED
    }
    others = (each for each in status.sessions if each.destination in group.members and each.state not in _OVER)
    return sorted(here & {each.client for each in others if each.destination != group.active})


def unordered(ordering: OrderingStatus) -> Iterator[str]:
    """Yield one sentence for each client with unordered entries, and one for disabled triggers."""
    if ordering.untriggered:
        tables = ", ".join(ordering.untriggered)
        yield (
            f"the trigger lrq_sequence_commit does not always fire on {tables}, so entries may not be sent: "
            "enable it as docs/operating.md says"
        )
    for each in ordering.unordered:
        if each.waiting:
            yield (
                f"{plural(each.waiting, 'entry', 'entries')} of {each.client} without a place in the order of "
                "commits: no site gets them; run `lrq trim --send-unordered` or `lrq trim --drop-unordered`"
            )
        if each.dropped:
            yield (
                f"{plural(each.dropped, 'entry', 'entries')} of {each.client} were trimmed and never sent: "
                "request snapshots, then run `lrq trim --drop-unordered`"
            )


def _unlogged(tables: Sequence[str]) -> Iterator[str]:
    if tables:
        yield f"{emptied_by_a_crash(tables)}: run `{LOGGED_AGAIN.format(tables[0])}`, the same for the others"


def _hiding(tables: Sequence[str]) -> Iterator[str]:
    if tables:
        yield f"{hidden_from_the_role(tables)}: {SHOW_ALL}"


def _altering(tables: Sequence[str]) -> Iterator[str]:
    if tables:
        yield f"{altered_by_others(tables)}: {NO_ALTERING}"


def blocked_trim(blockers: Iterable[TrimBlocker]) -> Iterator[str]:
    """Yield one sentence for each transaction that keeps trim from tables of the log, with its cure."""
    return (f"{blocking(each)}: {each.cure}" for each in blockers)


def blocking(blocker: TrimBlocker) -> str:
    """Return the sentence about one such transaction, without the cure."""
    age = "long" if blocker.seconds is None else duration(blocker.seconds)
    return f"{blocker.name} has used tables of the log for {age}, so trim cannot empty them"


def unknown(destinations: Iterable[UnknownStatus]) -> Iterator[str]:
    """Yield one sentence for the waiting entries, and one for the dropped entries, of each unknown destination."""
    for each in destinations:
        name = f"{each.client} for {each.destination}"
        if each.entries:
            count = f"{number(each.entries, is_least=each.more)} {'entry' if each.entries == 1 else 'entries'}"
            yield (
                f"{count} of {name}, which is no peer, the oldest for {duration(each.oldest_seconds)}: "
                "add the site to `peers`, or correct the name in the application"
            )
        if each.dropped:
            what = "before it was a peer" if each.is_peer else "because it is no peer"
            were = "was" if each.dropped == 1 else "were"
            yield (
                f"{plural(each.dropped, 'entry', 'entries')} of {name} {were} dropped {what}: "
                "request a snapshot if the site needs them, then run `lrq trim --forget-dropped`"
            )


def _sessions(status: SiteStatus) -> Iterator[str]:
    for session in status.sessions:
        name, lag = _name(session), session.lag
        if session.state is SessionState.FAILED:
            yield f"{name} has failed: {session.reason}"
        elif session.stalled and not session.unprovided:
            waiting = f"{plural(lag.entries, 'entry', 'entries')}, the oldest for {duration(lag.seconds)}"
            yield f"{name} is stalled with {waiting} ({session.state_text})"
        if session.unapplied:
            yield _unapplied(session)


def _unapplied(session: SessionStatus) -> str:
    lag = session.applied_lag
    count = f"{'up to ' if lag.is_most else ''}{plural(lag.entries, 'entry', 'entries')}"
    return (
        f"{session.destination} has not applied {count} of {session.client}, the "
        f"oldest for {duration(lag.seconds)}: look at its subscriber, and run `lrq status` there"
    )


def _waiting(queue: ReceiveQueueStatus, *, is_full: bool) -> Iterator[str]:
    """Yield the trouble of a queue whose content is due or can be applied by no subscriber."""
    left = plural(queue.outstanding, "entry", "entries") + " or more" * queue.more
    holds = left if queue.outstanding else "a snapshot"
    if not queue.subscribed:
        cure = _UNTOLD if is_full else ": start one"
        yield f"{queue.name} holds {holds}, and no subscriber of {queue.client} works here{cure}"
    elif queue.oldest_seconds > STALL_SECONDS:
        yield f"{queue.name} holds {holds}, the oldest for {duration(queue.oldest_seconds)}: its subscriber is too slow"


def _unprovided(status: SiteStatus) -> Iterator[str]:
    waiting: dict[ClientName, list[str]] = {}
    for session in status.sessions:
        if session.unprovided:
            waiting.setdefault(session.client, []).append(session.destination)
    members = {member for group in status.replicas for member in group.members}
    for client, sites in waiting.items():
        wait = "waits" if len(sites) == 1 else "wait"
        why = without_provider(client, is_member=members.issuperset(sites))
        yield f"{some(sites)} {wait} for a snapshot, and {why}"


def _name(session: SessionStatus) -> str:
    return f"{session.client} to {session.destination}"


def _snapshots(status: SiteStatus) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for snapshot in status.snapshots:  # newest first: only the newest one of a session counts
        session = (snapshot.client, snapshot.destination)
        if session in seen:
            continue
        seen.add(session)
        name = f"the snapshot of {snapshot.client} for {snapshot.destination}"
        if snapshot.state is SnapshotState.FAILED:
            yield f"{name} has failed: {snapshot.error}"
        elif snapshot.is_failing:
            yield f"{name} has failed {plural(snapshot.failed_attempts, 'time')} and is tried again: {snapshot.error}"
        elif snapshot.state is SnapshotState.READY and (lost := _lost(status, session)):
            waits = (status.at_us - snapshot.updated_us) / 1_000_000
            if waits > STALL_SECONDS:
                yield f"{name} is ready for {duration(waits)} and does not arrive ({lost})"


def _lost(status: SiteStatus, pair: tuple[str, str]) -> str:
    """Return the state of a session without a connection; empty for others, and for one whose entries wait as well."""
    found = (each for each in status.sessions if (each.client, each.destination) == pair)
    return next((each.state_text for each in found if each.state is SessionState.BACKING_OFF and not each.stalled), "")


def _since(failure: FailureStatus, at_us: int) -> str:
    return f" for {duration(max(at_us - failure.first_us, 0) / 1_000_000)}" if failure.first_us else ""


def _queues(status: SiteStatus, *, is_full: bool) -> Iterator[str]:
    for queue in status.receive_queues:
        if queue.failure:
            tries = plural(queue.failure.tries, "time")
            since = _since(queue.failure, status.at_us)
            yield f"{queue.name} is blocked{since}, refused {tries}: {queue.failure.error}"
        elif queue.outstanding or queue.snapshot_waits:
            yield from _waiting(queue, is_full=is_full)
        if queue.parked:
            parked = plural(queue.parked, "parked entry", "parked entries")
            yield f"{queue.name} has {parked}: see `lrq park list`"
