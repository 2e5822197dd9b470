"""Wait until every destination has acknowledged every committed entry."""

from operator import not_

from lr_server.protocol.states import StatusText
from lr_server.source.source import Source
from queues.clock import Clock, poll
from queues.errors import WaitTimeoutError
from queues.states import SessionState

_PAUSE = 0.02


def drain(source: Source, timeout: float, clock: Clock) -> None:
    """See `LogReplicationServer.drain`."""
    goal = _Goal(source, clock)
    source.sequencer.look()
    if missing := poll(goal.missing, not_, timeout=timeout, pause=_PAUSE, clock=clock):
        raise WaitTimeoutError(f"not drained after {timeout:g} s: {'; '.join(missing)}")


class _Goal:
    """The entries that are committed now, of every client that has transmitted by now."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        # A look that runs already may have missed the newest commits; the next look sees them all.
        self._looks = source.sequencer.looks + 2
        self._closed_at: float | None = None
        self._end: int | None = None

    def missing(self) -> list[str]:
        """Return the reasons why the goal is not reached yet; empty when the goal is reached."""
        sequencer, supervisor = self._source.sequencer, self._source.supervisor
        if self._closed_at is None:
            if sequencer.looks < self._looks:
                return [sequencer.trouble or "the sequencer has not read the log since"]
            self._closed_at = self._clock.monotonic()
        if self._end is None:
            # A new client gets its sessions after the first tick that holds its entries.
            if supervisor.looked_from < self._closed_at:
                return [supervisor.trouble or "the supervisor has not checked the sessions since"]
            newest = self._source.log.bounds().newest
            self._end = newest.end_seq if newest else 0
        return _behind(self._source, self._end)


def _behind(source: Source, end: int) -> list[str]:
    found = []
    for session in source.supervisor.sessions():
        standing = session.standing
        acked_seq = standing.acked.seq if standing.acked is not None else 0
        if standing.words.name is not SessionState.LOG_ENTRY_SYNC or acked_seq < end:
            to = f"{session.owed.client} to {session.owed.destination}"
            found.append(f"{to}: {acked_seq} of {end} ({_say(standing.words)})")
    return found


def _say(words: StatusText) -> str:
    return f"{words.name}: {words.detail}" if words.detail else words.name
