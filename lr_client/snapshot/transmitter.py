"""The transmitter: finds the snapshot requests of one client and lets the client's provider serve them."""

import sys
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine

from discovery.processes import owner_name
from discovery.threads import watched
from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_limit, checked_timeout
from lr_client.snapshot.build import Build, BuildSettings
from lr_client.snapshot.context import SnapshotProvider
from lr_client.snapshot.function_provider import ProvideFunction, provider_of
from lr_client.snapshot.provider_lease import ProviderLease
from lr_client.snapshot.work_trouble import WorkTrouble
from queues import send_snapshot
from queues.backoff import Backoff
from queues.clock import SYSTEM_CLOCK, Clock, jittered, now_us
from queues.database import leases
from queues.database.engine_check import require_engine
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, LrqError, OwnershipLostError, ThreadEndedError
from queues.logs import logger
from queues.names import client_name
from queues.send_log.known_sites import read_known
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot import claims, hints
from queues.send_snapshot.block_packer import BLOCK_ROWS, WriteLimits
from queues.send_snapshot.progress import progress_of
from queues.send_snapshot.states import Attempt
from queues.states import PROVIDER_STOPPED
from queues.words import in_words

log = logger(__name__)

#: Longest wait after a failed attempt, in seconds.
LONGEST_BACKOFF = 300.0
_QUICKEST_POLL = 0.02
#: Seconds that `close` waits beyond its timeout for a step under way.
_GRACE = 5.0
#: The longest wait for the first turn, in seconds; only a slow or missing database needs so long.
_FIRST_TURN = 1.0


def exponential(attempt: int) -> float:
    """Return the seconds to wait after failed attempt number *attempt*: 1, then doubling up to 300; with jitter."""
    return jittered(Backoff(1.0, LONGEST_BACKOFF).delay_seconds(attempt))


class SnapshotTransmitter:
    """Serves the snapshot requests of one client in threads of this process, until `close()`.

    Of several transmitters of one client, in any processes, one works and the others stand by. Up to *parallel*
    snapshots for different sites are built at a time, so a slow one does not delay others.
    """

    def __init__(
        self,
        engine: Engine,
        client: str,
        provider: SnapshotProvider | ProvideFunction,
        *,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        block_rows: int = BLOCK_ROWS,
        parallel: int = 2,
        share_window: float = 0.25,
        poll_interval: float = 0.5,
        lease_seconds: float = 10.0,
        backoff: Callable[[int], float] = exponential,
        scratch_folder: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Start; on return, the client has a provider at this site, so new sessions ask for a snapshot first.

        Only a slow or missing database delays that: the call waits for a second at most. Another transmitter takes over
        *lease_seconds* after this process died, or at once after `close()`.

        Requests of several sites within *share_window* seconds share one build, whose rows are stored once.
        A provider that reads `context.destination` gets one build per site instead.
        Rows are stored, sent and acknowledged in blocks of at most *block_rows*.
        Copies of SQLite databases go to *scratch_folder*, by default the system's folder for temporary files.
        Raises `ConfigurationError` for a limit out of range, `InvalidNameError` for a malformed *client*. Raises
        `UsageError` for a provider that is a class, or whose methods are `async def` or have other parameters.
        """
        self._engine = require_engine(engine, "start_snapshot_transmitter")
        self._provider = provider_of(provider)
        self._client = client_name(client)
        self._parallel = parallel
        self._poll_interval = poll_interval
        self._clock = clock
        if not isinstance(parallel, int) or parallel < 1:
            raise ConfigurationError(f"parallel must be a whole number above 0, not {parallel!r}")
        if not isinstance(share_window, int | float) or not 0 <= share_window <= threading.TIMEOUT_MAX:
            raise ConfigurationError(f"share_window must be a number of seconds from 0, not {share_window!r}")
        if block_rows < 1:
            raise ConfigurationError(f"block_rows must be above 0, not {block_rows}")
        limits = WriteLimits(payload_bytes=checked_limit(max_payload_bytes), block_rows=block_rows)
        self._window = share_window
        self._settings = BuildSettings(limits=limits, backoff=backoff, scratch=scratch_folder, alone=self._build_alone)
        self._owner = owner_name()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._has_begun = threading.Event()
        self._guard = threading.Lock()
        self._builds: dict[str, Build] = {}
        self._threads: list[threading.Thread] = []
        self._lease = ProviderLease(self._engine, self._client, self._owner, lease_seconds, clock)
        self._rest_until = clock.monotonic()
        self._trouble = WorkTrouble(log.bind(client=self._client), clock)
        self._close_by = 0.0
        self._thread = watched(f"lrq-transmitter-{client}", self._work, self._end_by_error)
        self._thread.start()
        self._has_begun.wait(_FIRST_TURN)

    @property
    def problem(self) -> str:
        """The error that keeps the transmitter from looking for requests now; empty when there is none."""
        return self._trouble.reason

    @property
    def active(self) -> bool | None:
        """Whether this transmitter works; False while another one does, and None before the first look."""
        return self._lease.is_held

    def close(self, timeout: float = 10.0) -> None:
        """Cancel the builds, wait up to *timeout* seconds for the provider to return, and release the lease.

        The next transmitter begins unfinished snapshots again. A second call is harmless. Returns at once while Python
        ends.
        """
        # `__del__` may run while Python ends. The threads stand still then.
        if sys.is_finalizing():
            return
        self._close_by = self._clock.monotonic() + checked_timeout(timeout)
        self._stop.set()
        self._wake.set()
        self._thread.join(min(timeout + _GRACE, threading.TIMEOUT_MAX))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _work(self) -> None:
        with ExitStack() as listening:
            self._look_for_requests(listening)
        self._finish()

    def _look_for_requests(self, listening: ExitStack) -> None:
        pause = _QUICKEST_POLL
        listens = False
        while not self._stop.is_set():
            self._wake.clear()
            try:
                if not listens:
                    listening.enter_context(self._hints())
                    listens = True
                due_in = self._turn()
                self._trouble.end()
                pause = min(2 * pause if due_in is None else max(due_in, _QUICKEST_POLL), self._poll_interval)
            except OwnershipLostError as lost:
                self._stand_down(str(lost))
            except Exception as failure:  # noqa: BLE001 - the top of the loop: logged, then tried again
                self._trouble.note(failure)
                pause = self._poll_interval
            self._has_begun.set()
            if self._clock.wait(self._wake, pause):
                # The hint of a request may come before its commit.
                pause = _QUICKEST_POLL / 2

    def _hints(self) -> hints.HintReceiver:
        with reading(self._engine) as connection:
            names = hints.names_at(connection)
        return hints.HintReceiver(names.transmitter(self._client), self._wake)

    def _turn(self) -> float | None:
        """Cancel builds without a request and begin the due ones.

        Return the seconds until a waiting request is due: 0 after a build has begun, None without such a request.
        """
        is_renewal = self._lease.is_due
        lease = self._lease.hold()
        if lease is None:
            return None
        if is_renewal:
            self._log_progress()
        running = self._running()
        free = self._parallel - len(running) if self._clock.monotonic() >= self._rest_until else 0
        with reading(self._engine) as connection:
            unwanted = [build for build in running.values() if not _is_wanted(connection, build.attempt)]
            due_in = self._due_in(connection, running) if free > 0 else None
        for build in unwanted:
            build.cancel()
        if due_in is None or due_in > 0:
            return due_in
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            begun = claims.claim(
                connection, self._client, self._owner, limit=free, running=running, together=self._window > 0
            )
        for attempt in begun:
            self._start(Build(self._engine, attempt, lease, self._provider, self._settings))
        return 0.0 if begun else None

    def _due_in(self, connection: Connection, running: Collection[str]) -> float | None:
        """Return the seconds until a waiting request is due; no request waits for others once every peer has asked."""
        due_in = claims.due_in(connection, self._client, running=running, window=self._window)
        if due_in:
            known = read_known(connection)
            if known and claims.is_asked_for_by_all(connection, self._client, known.peers, running=running):
                return 0.0
        return due_in

    def _log_progress(self) -> None:
        for build in self._running().values():
            with reading(self._engine) as connection:
                found = send_snapshot.of_build(connection, build.attempt.build)
            progress = found and progress_of(found, now_us())
            if found and progress:
                log.info(
                    "snapshot is being built", sync_id=found.sync_id, destination=found.destination,
                    rows=progress.rows, share=progress.share, rows_per_second=progress.rows_per_second,
                    seconds_left=progress.seconds_left,
                )  # fmt: skip

    def _stand_down(self, why: str) -> None:
        log.warning("snapshot transmitter stands by", client=self._client, reason=why)
        self._lease.lose()
        for build in self._running().values():
            build.cancel()

    def _build_alone(self) -> None:
        self._window = 0.0
        self._wake.set()

    def _start(self, build: Build) -> None:
        with self._guard:
            self._builds[build.attempt.build] = build
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(build.start(self._ended))

    def _ended(self, build: Build) -> None:
        with self._guard:
            del self._builds[build.attempt.build]
            self._rest_until = max(self._rest_until, self._clock.monotonic() + build.rest)
        self._wake.set()

    def _running(self) -> dict[str, Build]:
        with self._guard:
            return dict(self._builds)

    def _end_by_error(self, error: ThreadEndedError) -> None:
        self._trouble.reason = in_words(error)
        self._finish()

    def _finish(self) -> None:
        for build in self._running().values():
            build.give_up(PROVIDER_STOPPED)
        for thread in self._threads:
            thread.join(min(max(0.0, self._close_by - self._clock.monotonic()), threading.TIMEOUT_MAX))
        for build in self._running().values():
            build.hand_back(PROVIDER_STOPPED)
        # Without a database the release fails; the lease then expires by itself.
        with suppress(LrqError):
            self._lease.release()


def _is_wanted(connection: Connection, attempt: Attempt) -> bool:
    """Return whether the provider may go on: its attempt is being built or was published."""
    return snapshot_attempts.is_live(connection, attempt) or snapshot_attempts.is_published(connection, attempt)
