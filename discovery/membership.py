"""The part of one server in the leadership of a site's ranges: a thread that renews, looks, claims and releases.

Times, in terms of *ttl*: a row expires after 3/4, and is renewed every 1/4, so one renewal may fail. The others look at
the moment of an expiry. So a killed server's ranges have new leaders 3/4 of *ttl* after its last renewal, and 1/4 is
left for the beginning of their sessions. A process of the same machine that has surely ended is noticed within a
second, or 1/4 of *ttl* if that is shorter.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from sqlalchemy import Engine

from discovery.processes import surely_gone
from discovery.ranges import plan
from discovery.sightings import Sightings
from discovery.threads import OnEnded, watched
from queues.backoff import Backoff
from queues.clock import Clock
from queues.database import servers
from queues.errors import OwnershipLostError, ThreadEndedError
from queues.leadership import Lease, ServerRow, ServersView, range_number
from queues.words import cleaned, in_words

#: The longest time between two looks while other servers live, in seconds.
_LOOK: Final = 1.0
#: The time between two looks while another server must release a range first, in seconds.
_AWAIT: Final = 0.2
#: The pause after another server's expiry, before the look, in seconds.
_AFTER_EXPIRY: Final = 0.01
#: The longest rest after a failure, and the longest call of `on_change`, in terms of the lease.
_LONGEST_REST: Final = 30


class Membership:
    """Takes part in the leadership of the ranges, from `start` to `stop`.

    *on_change* gets the led ranges in this class's thread each time they change, or the branch of the site. When the
    call returns, the sessions of other ranges must have ended: only then others may lead these. An error of the call,
    or of `give_up`, frees all ranges; after a rest this server takes part again.

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
    ) -> None:
        """Prepare for *server*, an `owner_name`; *ranges* must be the same at all servers of the site.

        *endpoints* tells where the server listens. *on_ended* gets the error that ends the thread, if any.
        """
        self._engine = engine
        self._me = server
        self._ranges = ranges
        self._ttl = ttl
        self._clock = clock
        self._endpoints = endpoints
        self._on_change = on_change
        self._on_ended = on_ended
        self._registered: tuple[str, ...] | None = None
        self._held: Mapping[int, Lease] = {}
        self._branch: str | None = None
        self._awaited = False
        self._sightings = Sightings(slack=ttl / 10, longest=4 * ttl)
        self._given_up: Exception | None = None
        self._failures = 0
        self._began = self._rest_until = self._renew_from = self._claim_from = clock.monotonic()
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = watched("lrq-servers", self._run, self._end_by_error)
        self.view: ServersView | None = None
        self.reason = "servers: not started"

    @property
    def held(self) -> Mapping[int, Lease]:
        """The ranges that this server leads now, by their numbers."""
        return self._held

    def start(self) -> None:
        """Register this server, then start the thread. Start it before the `Ownership` of the lease `server`.

        Raises `ConfigurationError` if other servers use another number of ranges, and `StoreUnavailableError`.
        """
        self._register()
        self._thread.start()

    def wake(self) -> None:
        """Look at once, for example after a transaction was refused."""
        self._awake.set()

    def give_up(self, error: Exception) -> None:
        """End the work because of *error*; for any thread.

        After an `OwnershipLostError`, look at once, and end the work of lost ranges only. After another error, free all
        ranges and rest. The rest is one *ttl*, doubled for each failure in a row.
        """
        if not isinstance(error, OwnershipLostError):
            self._given_up = self._given_up or error
        self._awake.set()

    def stop(self, *, wait: bool = True) -> None:
        """End the work, free the ranges and leave the site's servers; with *wait*, return after that."""
        self._stopping.set()
        self._awake.set()
        if wait and self._thread.is_alive() and threading.current_thread() is not self._thread:
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
        try:
            if self._given_up:
                self._rest(self._given_up)
            elif self._clock.monotonic() >= self._rest_until:
                self._take_part()
        except Exception as error:  # noqa: BLE001 - told in `reason`; the next turn tries again
            self.reason = f"servers: {in_words(error)}"

    def _pause(self) -> float:
        pauses = [self._ttl / 4]
        if self._awaited:
            pauses.append(_AWAIT)
        if self.view is not None and self._registered is not None:
            leading = {row.server for row in self.view.ranges}
            others = [row for row in self.view.living.values() if row.server != self._me]
            pauses += [_LOOK] * bool(others)
            pauses += [
                (row.expires_us - self.view.now_us) / 1e6 + _AFTER_EXPIRY for row in others if row.server in leading
            ]
            pauses.append(max(self._renew_from - self._clock.monotonic(), 0.0))
        return min(pauses)

    def _take_part(self) -> None:
        now = self._clock.monotonic()
        if self._registered is not None and now >= self._renew_from and not self._renew():
            self._registered = None
        view = self._look()
        if self._registered is None or self._me not in view.living:
            # Others may lead the ranges by now: losses are told before this server counts as living again.
            self._keep(plan(view, self._me, self._held).kept, view)
            self._register()
            self._claim_from = now + self._ttl / 4 if self._held or self._branch else now
            view = self._look()
        elif tuple(self._endpoints()) != self._registered:
            self._register()
        self._sightings.keep(frozenset(view.living))
        gone = [row for row in view.living.values() if self._end_gone(row, view)]
        if gone:
            view = self._look()
        self._carry_out(view)

    def _look(self) -> ServersView:
        self.view = view = servers.look(self._engine)
        return view

    def _register(self) -> None:
        self._renew_from = self._clock.monotonic() + self._ttl / 4
        endpoints = tuple(self._endpoints())
        servers.register(self._engine, self._me, endpoints, count=self._ranges, term=self._term)
        self._registered = endpoints

    def _renew(self) -> bool:
        renew_from = self._clock.monotonic() + self._ttl / 4
        renewed = servers.renew(self._engine, self._me, self._term)
        self._renew_from = renew_from
        return renewed

    @property
    def _term(self) -> float:
        return self._ttl * 3 / 4

    def _end_gone(self, row: ServerRow, view: ServersView) -> bool:
        """Expire the row of a server that has surely ended, or whose renewals have ended; return whether it was."""
        is_overdue = self._sightings.is_overdue(row, view.now_us, self._clock.monotonic())
        if row.server == self._me or not (is_overdue or surely_gone(row.server)):
            return False
        return servers.remove(self._engine, row.server, seen=row)

    def _carry_out(self, view: ServersView) -> None:
        turn = plan(view, self._me, self._held, patient=self._clock.monotonic() < self._claim_from)
        self._awaited = turn.awaited
        self._keep(turn.kept, view)
        if turn.releases:
            servers.release(self._engine, turn.releases)
        claimed = servers.claim(self._engine, self._me, turn.claims) if turn.claims else ()
        if claimed:
            self._tell({**turn.kept, **{range_number(lease): lease for lease in claimed}})
        self._show(view)

    def _keep(self, kept: Mapping[int, Lease], view: ServersView) -> None:
        is_new = self._branch not in (None, view.branch)
        self._branch = view.branch
        if is_new or kept != self._held:
            self._tell(kept)

    def _tell(self, held: Mapping[int, Lease]) -> None:
        self._held = MappingProxyType(dict(sorted(held.items())))
        try:
            with self._renewing():
                self._on_change(self._held)
        except Exception as error:
            self.give_up(error)
            raise

    def _show(self, view: ServersView) -> None:
        if view.has_older_sequencer and view.sequencer is not None:
            self.reason = f"servers: an older lrq works for the site alone: {view.sequencer.owner}"
        else:
            led = f"leads {len(self._held)} of {len(view.ranges)} ranges"
            self.reason = f"servers: {led}; servers of the site: {len(view.living)}"

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        """Renew in another thread while the block runs, which may wait for sessions; not without end."""
        ended = threading.Event()

        def renew() -> None:
            until = self._clock.monotonic() + _LONGEST_REST * self._ttl
            while not self._clock.wait(ended, max(self._renew_from - self._clock.monotonic(), 0.0)):
                if self._clock.monotonic() > until or not self._renew():
                    return

        thread = watched("lrq-servers-renewal", renew, self.give_up)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    # --- the end of the work

    def _rest(self, error: Exception) -> None:
        now = self._clock.monotonic()
        has_recovered = now - self._began > _LONGEST_REST * self._ttl
        self._failures = 1 if has_recovered else self._failures + 1
        rest = Backoff(self._ttl, _LONGEST_REST * self._ttl).delay_seconds(self._failures)
        self._rest_until = self._began = now + rest
        self._leave(
            f"servers: {in_words(error)}; all ranges are free, and this process takes part again in {rest:.0f} s"
        )

    def _leave(self, reason: str) -> None:
        held, self._held = self._held, {}
        self._registered, self._branch, self._awaited = None, None, False
        try:
            if held:
                self._on_change(self._held)
                servers.release(self._engine, held.values())
            servers.remove(self._engine, self._me)
            self.reason = cleaned(reason)
        except BaseException as problem:  # noqa: BLE001 - the row of the server expires by itself
            self.reason = f"{cleaned(reason)}; not released, it expires within {self._term} s: {in_words(problem)}"
        # The work has ended, so none of its threads gives up the next.
        self._given_up = None
