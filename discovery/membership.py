"""The part of one server in the leadership of a site's ranges: a thread that renews, looks, claims and releases.

Times, in terms of *ttl*: a server's row lives for 3/4 after each renewal (`discovery.own_row`). The others see its
expiry at once (`discovery.look_times`). The rest of *ttl* is left for the beginning of the sessions at new leaders. A
process of the same machine that has surely ended is noticed by the next look.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlalchemy import Engine

from discovery.failure_rest import FailureRest
from discovery.look_times import until_look, until_retry
from discovery.own_row import OwnRow
from discovery.processes import surely_gone
from discovery.ranges import RangePlan, plan
from discovery.sightings import Sightings
from discovery.threads import OnEnded, watched
from queues.clock import Clock
from queues.database import servers
from queues.errors import OwnershipLostError, StoreUnavailableError, ThreadEndedError
from queues.leadership import NO_TOPOLOGY, Lease, ServerRow, ServersView, TopologyFacts, range_number
from queues.words import cleaned, in_words

#: The most attempts to register at the start; the database may end a transaction of a process that stood still.
_STARTS: Final = 3
_EXPIRED: Final = (
    "servers: this server was away for too long, because its process stood still or its database did not answer: it "
    "takes its share again now"
)


class Membership:
    """Takes part in the leadership of the ranges, from `start` to `stop`.

    One thread calls *on_change* with the led ranges each time they change, or the branch of the site. When the call
    returns, the sessions of other ranges must have ended: only then others may lead these. An error of the call, or of
    `give_up`, frees all ranges; after a rest this server takes part again.

    `held` has the led ranges, `view` the last look, and `reason` the state in one sentence, or the last failure.
    """

    def __init__(
        self,
        engine: Engine,
        server: str,
        *,
        ranges: int,
        ttl: float,
        clock: Clock,
        endpoints: Callable[[], Sequence[str]],
        on_change: Callable[[Mapping[int, Lease]], None],
        on_ended: OnEnded,
        topology: Callable[[], TopologyFacts] = lambda: NO_TOPOLOGY,
        sink_trouble: Callable[[], str] = str,
    ) -> None:
        """Prepare for *server*, an `owner_name`; *ranges* and *ttl* are the same at all servers of the site.

        *endpoints* tells where other servers reach this one, and *topology* the peers that it follows. *on_ended* gets
        the error that ends the thread, if any.
        """
        self._engine = engine
        self._me = server
        self._ttl = ttl
        self._clock = clock
        self._on_change = on_change
        self._on_ended = on_ended
        self._row = OwnRow(
            engine, server,
            ranges=ranges, ttl=ttl, clock=clock,
            endpoints=endpoints, topology=topology, sink_trouble=sink_trouble, on_error=self._fail,
        )  # fmt: skip
        self._sightings = Sightings(slack=ttl / 10, longest=4 * ttl)
        self._held: Mapping[int, Lease] = MappingProxyType({})
        self._branch: str | None = None
        self._awaited = self._failed = False
        self._given_up: Exception | None = None
        self._rest = FailureRest(ttl, clock.monotonic())
        self._patient_until = clock.monotonic()
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = watched("lrq-servers", self._run, self._end_by_error)
        self.view: ServersView | None = None
        self.reason = "servers: not started"
        self._led = ""

    @property
    def held(self) -> Mapping[int, Lease]:
        """The ranges that this server leads now, by their numbers."""
        return self._held

    @property
    def trouble(self) -> str:
        """Why this server takes no part in the work of the site, to its knowledge; empty while it does."""
        view = self.view
        if view is not None and view.has_older_sequencer:
            return _older(view)
        if view is not None and self._row.is_registered:
            return ""
        # The share of before tells no reason.
        return _EXPIRED if self.reason == self._led else self.reason

    def start(self) -> None:
        """Register this server, then start the thread; call it before `Ownership.start` for the lease `server`.

        Otherwise other servers take the owner of that lease for an older lrq, and lead no range.

        Raises `ConfigurationError` if other servers use another number of ranges, and `StoreUnavailableError`.
        """
        for attempt in reversed(range(_STARTS)):
            try:
                self._row.register()
                break
            except StoreUnavailableError:
                if not attempt:
                    raise
        self._thread.start()

    def wake(self) -> None:
        """Look at once, for example after a transaction was refused."""
        self._awake.set()

    def give_up(self, error: Exception) -> None:
        """End work because of *error*; for any thread.

        After an `OwnershipLostError`, look at once, and end the work of lost ranges only. After another error, free all
        ranges and rest. The rest is one *ttl*, doubled for each failure in a row.
        """
        if not isinstance(error, OwnershipLostError):
            self._given_up = self._given_up or error
        self._awake.set()

    def stop(self, *, wait: bool = True) -> None:
        """End the work, free the ranges and leave the site's servers; with *wait*, return after that.

        Call it after `Ownership.stop`, so that the sequencer has a row as long as its lease.
        """
        self._stopping.set()
        self._awake.set()
        if wait:
            self._thread.join()

    # --- the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            self._turn()
            if not self._stopping.is_set():
                self._clock.wait(self._awake, self._pause())
        self._leave("servers: stopped")

    def _end_by_error(self, error: ThreadEndedError) -> None:
        self._leave(f"servers: {error}")
        self._on_ended(error)

    def _turn(self) -> None:
        self._failed = False
        try:
            if self._given_up:
                self._free_all(self._given_up)
            elif self._rest.is_over(self._clock.monotonic()):
                self._take_part()
        except Exception as error:  # noqa: BLE001 - told in `reason`; the next turn tries again
            self._fail(error)
            self._failed = True

    def _fail(self, error: Exception) -> None:
        self.reason = f"servers: {in_words(error)}"

    def _pause(self) -> float:
        if self._failed or not self._row.is_registered or self.view is None:
            return until_retry(self._ttl)
        return until_look(self.view, self._me, renewal=self._row.pause, awaited=self._awaited)

    # --- one turn

    def _take_part(self) -> None:
        view = self._renewed() or self._look()
        if not self._row.is_registered or self._me not in view.living:
            view = self._return(view)
        elif self._row.is_outdated:
            self._row.register()
        self._sightings.keep(frozenset(view.living))
        gone = [row for row in view.living.values() if self._expire_gone(row, view)]
        if gone:
            view = self._look()
        is_patient = self._clock.monotonic() < self._patient_until
        self._carry_out(plan(view, self._me, self._held, patient=is_patient), view)

    def _return(self, view: ServersView) -> ServersView:
        """Register again after the row has expired; return a new look.

        Others may lead the ranges by now, so losses are told first. Perhaps the clock has jumped, and the others have
        not expired either: this server leaves them time to renew.
        """
        self._row.forget()
        self._keep(plan(view, self._me, self._held).kept, view)
        self._row.register()
        self._patient_until = self._clock.monotonic() + self._ttl / 2
        return self._look()

    def _renewed(self) -> ServersView | None:
        view = self._row.renew_if_due()
        if view is not None:
            self.view = view
        return view

    def _look(self) -> ServersView:
        self.view = view = servers.look(self._engine)
        return view

    def _expire_gone(self, row: ServerRow, view: ServersView) -> bool:
        """Expire the row of a process that has surely ended, or of a server that renews no more."""
        if row.server == self._me:
            return False
        now = self._clock.monotonic()
        is_overdue = self._sightings.is_overdue(row.server, row.expires_us, now_us=view.now_us, monotonic=now)
        return (is_overdue or surely_gone(row.server)) and servers.remove(self._engine, row.server, seen=row)

    def _carry_out(self, turn: RangePlan, view: ServersView) -> None:
        self._awaited = turn.awaited
        self._keep(turn.kept, view)
        if turn.releases:
            servers.release(self._engine, turn.releases)
        claimed = servers.claim(self._engine, self._me, turn.claims) if turn.claims else ()
        if claimed:
            self._change_to({**turn.kept, **{range_number(lease): lease for lease in claimed}})
        self._show(view)

    def _keep(self, kept: Mapping[int, Lease], view: ServersView) -> None:
        is_new_branch = self._branch not in (None, view.branch)
        self._branch = view.branch
        if is_new_branch or kept != self._held:
            self._change_to(kept)

    def _change_to(self, held: Mapping[int, Lease]) -> None:
        self._held = MappingProxyType(dict(sorted(held.items())))
        try:
            with self._row.during_call(self.give_up):
                self._on_change(self._held)
        except Exception as error:
            self.give_up(error)
            raise

    def _show(self, view: ServersView) -> None:
        if view.has_older_sequencer:
            self.reason = _older(view)
        else:
            led = f"leads {len(self._held)} of {len(view.ranges)} ranges"
            self.reason = self._led = f"servers: {led}; servers of the site: {len(view.living)}"

    # --- the end of the work

    def _free_all(self, error: Exception) -> None:
        rest = self._rest.begin(self._clock.monotonic())
        words = f"servers: {in_words(error)}; all ranges are free, and this process takes part again in {rest:.0f} s"
        self._leave(words)

    def _leave(self, reason: str) -> None:
        held, self._held = self._held, MappingProxyType({})
        self._row.forget()
        self._branch, self._awaited = None, False
        try:
            if held:
                self._on_change(self._held)
                servers.release(self._engine, held.values())
            self._row.remove()
            self.reason = cleaned(reason)
        except BaseException as problem:  # noqa: BLE001 - the row of the server expires by itself
            self.reason = f"{cleaned(reason)}; not released, it expires within {self._row.term} s: {in_words(problem)}"
        # The work has ended, so none of its threads gives up the next.
        self._given_up = None


def _older(view: ServersView) -> str:
    owner = "" if view.sequencer is None else view.sequencer.owner
    return f"servers: an older lrq works for the site alone: {owner}"
