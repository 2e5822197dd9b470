"""A snapshot in a fault run of a ring: the state of the producers, from a provider at each file."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from sqlalchemy import Engine

import queues
from lr_client import RoutingQueueSenderClient
from lr_client.snapshot.context import SnapshotContext
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError
from tests.faults.rampage import wait_until
from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import Recorder

#: The seconds until an order is repeated: a change of leaders may have withdrawn the earlier one.
_REPEAT = 10.0
_TRIES = 12


class RingSnapshot:
    """Providers at the files of all members, and one site that gets a snapshot in the middle of a run."""

    def __init__(self, site: RingSite, stack: ExitStack, state: Callable[[], Sequence[bytes]], late: Recorder) -> None:
        """Begin the providers; *state* returns the payloads of the present state, and *late* listens at `rome`."""
        self._client = RoutingQueueSenderClient("policy")
        self._state, self._late = state, late
        self._engines: list[Engine] = []
        for rank in RANKS:
            engine = queues.create_engine(f"sqlite:///{site.database(rank)}")
            stack.callback(engine.dispose)
            stack.enter_context(closing(self._client.start_snapshot_transmitter(engine, self._provide)))
            self._engines.append(engine)

    def order(self) -> None:
        """Order the snapshot at each file: the leader serves the order, and followers withdraw it."""
        for engine in self._engines:
            try:
                with writing(engine) as connection:
                    self._client.request_snapshot_sync(connection, "rome")
            except StoreUnavailableError:
                continue

    def problems(self, log: Sequence[bytes]) -> list[str]:
        """Wait for the snapshot, and compare it with the whole *log*, which another site has heard."""
        for _ in range(_TRIES):
            if self._is_complete() or wait_until(self._is_complete, seconds=_REPEAT):
                break
            self.order()
        else:
            return [f"rome has no snapshot after {_TRIES} orders"]
        if not wait_until(lambda: self._fits(log)):
            snapshot, later = self._heard()
            return [f"rome has {len(snapshot)} entries in the snapshot and {len(later)} after it, of {len(log)}"]
        return []

    @property
    def later(self) -> int:
        """The number of entries that came after the snapshot."""
        return len(self._heard()[1])

    def _provide(self, context: SnapshotContext) -> None:
        for payload in self._state():
            context.transmit(payload)
        context.mark_completed()

    def _is_complete(self) -> bool:
        return any(kind == "complete" for kind, _ in self._late.heard.get("paris", []))

    def _fits(self, log: Sequence[bytes]) -> bool:
        """Return whether the log goes on at `rome` exactly after the base, and the snapshot has all before."""
        snapshot, later = self._heard()
        before = len(log) - len(later)
        return [*log[before:]] == later and set(log[:before]) <= set(snapshot)

    def _heard(self) -> tuple[list[bytes], list[bytes]]:
        """Return the payloads of the last snapshot, and those after it."""
        heard = [*self._late.heard.get("paris", [])]
        end = max(place for place, (kind, _) in enumerate(heard) if kind == "complete")
        begin = max(place for place, (kind, _) in enumerate(heard[:end]) if kind == "start")
        return [each for _, each in heard[begin + 1 : end]], [each for _, each in heard[end + 1 :]]
