"""The shards of a client in one process: a lease for each, and as many as the other processes leave."""

import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine

from discovery.ownership import TTL, Ownership, OwnershipState
from discovery.processes import owner_name, surely_gone
from discovery.sightings import Sightings
from discovery.threads import watched
from lr_client.subscriber.queue_threads import QueueWork
from queues.clock import Clock
from queues.database.transactions import reading, writing_briefly
from queues.errors import StoreUnavailableError, ThreadEndedError
from queues.logs import logger
from queues.names import ClientName
from queues.receive import shard_marks, shard_members, stored_shard_maps
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.shard_members import Members
from queues.shard_maps import ShardMap, new_map
from queues.words import in_words

_log = logger("lrq.subscriber")

#: The longest time between two looks at the members and the map, in seconds.
_LOOK: Final = 0.5


class ShardOwners:
    """Owns a share of the shards of *client*, and gives shards away to processes that come.

    *new_work* makes the work of a shard; its second argument is the `give_up` of the lease. *on_unsharded* is called,
    in a thread of its own, once the client has no shards any more. *on_success* is called after each look without an
    error.
    """

    def __init__(
        self,
        engine: Engine,
        client: ClientName,
        *,
        new_work: Callable[[int, Callable[[Exception], None]], QueueWork],
        on_unsharded: Callable[[], None],
        on_error: Callable[[Exception], None],
        on_success: Callable[[], None] = lambda: None,
        ttl: float,
        clock: Clock,
    ) -> None:
        """Prepare; `start` begins."""
        self._engine = engine
        self._client = client
        self._new_work = new_work
        self._on_unsharded = on_unsharded
        self._on_error = on_error
        self._on_success = on_success
        self._ttl = ttl
        self._clock = clock
        self._member = owner_name()
        # Members with a somewhat longer time than this process count as living, too.
        self._sightings = Sightings(slack=ttl / 10, longest=4 * max(ttl, TTL))
        self._owned: dict[int, Ownership] = {}
        self._leaving: list[Ownership] = []
        self._stopping = threading.Event()
        self._thread = watched(f"lrq-shards-{client}", self._run, self._end_by_error)
        self.reason = f"the shards of {client}: not started"

    def start(self) -> None:
        """Start the thread that looks for the own share."""
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether this process delivers any shard."""
        return any(owned.lease is not None for owned in list(self._owned.values()))

    @property
    def state(self) -> OwnershipState:
        """Owner with any shard, otherwise standing by."""
        if self._stopping.is_set():
            return OwnershipState.STOPPED
        return OwnershipState.OWNER if self.active else OwnershipState.STANDING_BY

    def stop(self, *, wait: bool = True) -> None:
        """End the work and release all leases; with *wait*, return after that."""
        self._stopping.set()
        if wait:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._look():
                    self._end_all()
                    self._on_unsharded()
                    return
                self._on_success()
            except Exception as error:  # noqa: BLE001 - told in `reason` and reported; the next look tries again
                self.reason = f"the shards of {self._client}: {in_words(error)}"
                self._on_error(error)
            self._clock.wait(self._stopping, min(self._ttl / 3, _LOOK))
        self._end_all()

    def _look(self) -> bool:
        """Take and give shards once; return False if the client has no shards any more."""
        with writing_briefly(self._engine) as connection:
            joined = shard_members.join(connection, self._client, self._member, self._ttl)
            newest = stored_shard_maps.newest(connection, self._client)
            most = shard_marks.most_shards(connection, self._client)
        wanted = newest.shards if newest else 1
        if wanted == 1 and not most:
            return False
        living = self._living(joined)
        total = max(wanted, most)
        own = shard_members.shards_of(self._member, living, total)
        for shard in [shard for shard in self._owned if shard not in own]:
            self._leaving.append(self._owned.pop(shard))
            self._leaving[-1].stop(wait=False)
        self._leaving = [each for each in self._leaving if each.state is not OwnershipState.STOPPED]
        for shard in own:
            if shard not in self._owned:
                ownership = self._new_ownership(shard)
                ownership.start()  # where no thread can begin now, the next look tries again
                self._owned[shard] = ownership
        shown = ", ".join(map(str, own)) or "none"
        self.reason = f"the shards of {self._client}: {shown} of {total} (members: {len(living)})"
        return True

    def _living(self, joined: Members) -> list[str]:
        """Return the members that have not surely ended, and that renew, although the database's clock may go back."""
        now = self._clock.monotonic()
        others = [member for member in joined.members if member.name != self._member and not surely_gone(member.name)]
        self._sightings.keep(frozenset(member.name for member in others))
        overdue = {
            name
            for name, expires_us in others
            if self._sightings.is_overdue(name, expires_us, now_us=joined.now_us, monotonic=now)
        }
        return [self._member, *(member.name for member in others if member.name not in overdue)]

    def _new_ownership(self, shard: int) -> Ownership:
        work = self._new_work(shard, lambda error: ownership.give_up(error))
        name = subscriber_lease(self._client, shard)
        ownership = Ownership(
            self._engine, name, on_acquired=work.begin, on_lost=work.end, ttl=self._ttl, clock=self._clock
        )
        return ownership

    def _end_all(self) -> None:
        ending = [*self._owned.values(), *self._leaving]
        for owned in ending:
            owned.stop(wait=False)
        for owned in ending:
            owned.stop()
        self._owned, self._leaving = {}, []
        try:
            with writing_briefly(self._engine) as connection:
                shard_members.leave(connection, self._client, self._member)
        except Exception as error:  # noqa: BLE001 - the membership ends by itself
            self._on_error(error)

    def _end_by_error(self, error: ThreadEndedError) -> None:
        self.reason = f"the shards of {self._client}: {error}"
        self._end_all()
        self._on_error(error)


def is_sharded(engine: Engine, client: ClientName) -> bool:
    """Return whether *client* has several shards, or is about to end them."""
    with reading(engine) as connection:
        newest = stored_shard_maps.newest(connection, client)
        return (newest is not None and newest.shards > 1) or shard_marks.most_shards(connection, client) > 0


def store_shards(engine: Engine, client: ClientName, shards: int, partitioner: str, *, is_told: bool) -> None:
    """Store the first map of a client that is to have several shards.

    A client that has a map keeps it; another number, if the application *is_told* one, is logged as a warning. Raises
    `StoreUnavailableError`.
    """
    stored = _newest(engine, client)
    if stored is None and shards > 1:
        try:
            stored_shard_maps.add(engine, client, new_map(1, shards, partitioner))
        except StoreUnavailableError:
            # Another subscription may have stored one at this moment.
            if _newest(engine, client) is None:
                raise
    elif stored is not None and is_told and (stored.shards, stored.partitioner) != (shards, partitioner):
        _log.warning(
            "the application names other shards than those that are stored; change them by lrq subscribe shards",
            client=client,
            shards=stored.shards,
            partitioner=stored.partitioner,
            told=f"{shards} {partitioner}",
        )


def _newest(engine: Engine, client: ClientName) -> ShardMap | None:
    with reading(engine) as connection:
        return stored_shard_maps.newest(connection, client)
