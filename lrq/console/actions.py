"""The actions of the console on a site, and the log of actions."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from sqlalchemy import Engine

from lr_client.replays import cancel_replay, place_replay
from lr_client.resends import cancel_resend
from lr_client.snapshot.requests import request_snapshot_sync
from lr_client.subscriber.park_now import park_now
from queues import send_snapshot
from queues.clock import now_us
from queues.database.transactions import writing
from queues.errors import UsageError
from queues.logs import logger
from queues.names import client_name, site_id
from queues.receive.parked import ParkedTransaction, discard_parked, parked, retry_parked
from queues.receive.replays import ReplayWish

_log = logger("lrq.console")

#: The most parked transactions of one action.
MOST: Final = 10_000
_KEPT: Final = 500
#: The wait for the present call of a listener, in seconds; less than a page waits.
_LOCK_SECONDS: Final = 5


class ActionKind(StrEnum):
    """An action, as forms name it."""

    RETRY = "retry"
    DISCARD = "discard"
    PARK = "park"
    CANCEL = "cancel"
    REQUEST = "request"
    REPLAY = "replay"
    CANCEL_REPLAY = "cancel replay"
    CANCEL_RESEND = "cancel resend"


@dataclass(frozen=True, slots=True)
class Action:
    """An action with its objects.

    The objects are ids of parked transactions, or the id, or client and destination, of a snapshot. A blocked queue has
    a client, a source, the number of its entry, and perhaps a shard. An order for a replay has a client, a source and
    a wish. One for a resend has a client, a destination and an id.
    """

    kind: ActionKind
    ids: tuple[int, ...] = ()
    sync_id: str = ""
    client: str = ""
    destination: str = ""
    source: str = ""
    shard: int | None = None
    seq: int | None = None
    wish: ReplayWish | None = None
    order_id: str = ""

    @property
    def needs_confirmation(self) -> bool:
        """Whether the action ends something for good, lets entries overtake another, or has entries applied again."""
        return self.kind not in (ActionKind.RETRY, ActionKind.REQUEST, ActionKind.CANCEL_REPLAY)


@dataclass(frozen=True, slots=True)
class Done:
    """An action in the log: its time, person, site and outcome."""

    at_us: int
    person: str
    site: str
    words: str
    failed: bool = False


class ActionsLog:
    """The last actions, newest first, in bounded memory; each also goes to the log of the process."""

    def __init__(self) -> None:
        self._kept: deque[Done] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def note(self, person: str, site: str, words: str, *, failed: bool = False) -> None:
        """Add one action."""
        with self._lock:
            self._kept.appendleft(Done(now_us(), person, site, words, failed))
        _log.info("action", person=person, site=site, outcome=words, failed=failed)

    def listing(self) -> Sequence[Done]:
        """Return the actions, newest first."""
        with self._lock:
            return tuple(self._kept)


def carry_out(engine: Engine, action: Action, person: str) -> str:
    """Carry out *action* and return its outcome as a sentence; raises the errors of lrq."""
    match action.kind:
        case ActionKind.RETRY:
            return _each(engine, action.ids, person, retry=True)
        case ActionKind.DISCARD:
            return _each(engine, action.ids, person, retry=False)
        case ActionKind.PARK:
            return _park(engine, action, person)
        case ActionKind.CANCEL:
            return _cancel(engine, action.sync_id, person)
        case ActionKind.REQUEST:
            return _request(engine, action.client, action.destination, person)
        case ActionKind.REPLAY:
            return _replay(engine, action, person)
        case ActionKind.CANCEL_REPLAY:
            return f"{cancel_replay(engine, action.client, action.source, person=person).name}: the order is withdrawn"
        case ActionKind.CANCEL_RESEND:
            order = cancel_resend(engine, action.client, action.destination, order_id=action.order_id, person=person)
            return f"resend of {order.client} to {order.destination} cancelled; {order.words}"
        case _:
            assert_never(action.kind)


def matching(
    engine: Engine, client: str | None, source: str | None, text: str = "", *, messages: bool = False
) -> list[ParkedTransaction]:
    """Return the parked transactions that match; *text* is a part of the error, of its message only with *messages*."""
    return [
        each
        for each in parked(engine, client=client, limit=MOST)
        if source in (None, each.source)
        and (text in f"{each.error_class} {each.place}" or (messages and text in each.error))
    ]


def _park(engine: Engine, action: Action, person: str) -> str:
    client, source = client_name(action.client), site_id(action.source)
    chosen = {"shard": action.shard, "seq": action.seq}
    return park_now(engine, client, source, **chosen, person=person, seconds=_LOCK_SECONDS).words()


def _replay(engine: Engine, action: Action, person: str) -> str:
    """Order a replay, and do not wait for the source; the pages show its answer."""
    if action.wish is None:
        raise UsageError("the form names no entries: load the page again")
    order = place_replay(engine, action.client, action.source, action.wish, person=person)
    return f"replay of {order.name} ordered: {order.words}"


def _each(engine: Engine, ids: Sequence[int], person: str, *, retry: bool) -> str:
    """Retry or discard each transaction that is still there; several people may act at once."""
    done, gone = [], 0
    for parked_id in ids:
        try:
            (retry_parked if retry else discard_parked)(engine, parked_id, person=person)
            done.append(parked_id)
        except UsageError:
            gone += 1
    named = f" ({', '.join(map(str, done[:10]))}{', …' if len(done) > 10 else ''})" if done else ""
    noun = "parked transaction" if len(done) == 1 else "parked transactions"
    outcome = "planned for another try" if retry else "discarded for good"
    missing = f"; {gone:,} had gone before" if gone else ""
    return f"{len(done):,} {noun}{named} {outcome}{missing}"


def _cancel(engine: Engine, sync_id: str, person: str) -> str:
    with writing(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
        reason = f"cancelled in the console by {person}"
        if found is None or not send_snapshot.cancel_exactly(connection, sync_id, reason):
            return f"snapshot {sync_id[:8]} was finished already"
    return f"snapshot {sync_id[:8]} of {found.client} for {found.destination} cancelled"


def _request(engine: Engine, client: str, destination: str, person: str) -> str:
    name, site = client_name(client), site_id(destination)
    with writing(engine) as connection:
        sync_id = request_snapshot_sync(connection, name, site, reason=f"requested in the console by {person}")
    return f"snapshot {sync_id[:8]} of {name} for {site} requested"
