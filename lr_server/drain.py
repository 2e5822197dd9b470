"""Waiting until everything that is committed has been acknowledged by everyone."""

import threading

from lr_server.source import Source
from lr_server.states import Words
from queues.clock import Clock
from queues.errors import WaitTimeoutError

_PAUSE = 0.02


def drain(source: Source, timeout: float, clock: Clock) -> None:
    """See `LogReplicationServer.drain`."""
    began = clock.monotonic()
    never = threading.Event()
    goal = _Goal(source, clock)
    source.sequencer.look()
    while missing := goal.missing():
        if clock.monotonic() >= began + timeout:
            raise WaitTimeoutError(f"not drained after {timeout:g} s: {'; '.join(missing)}")
        clock.wait(never, _PAUSE)


class _Goal:
    """What is committed now, for every client that has transmitted something by now."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        # One look may have begun before; the next one sees everything that is committed now.
        self._looks = source.sequencer.looks + 2
        self._closed_at: float | None = None
        self._end: int | None = None

    def missing(self) -> list[str]:
        """Tell what keeps it from being reached; nothing when it is."""
        sequencer, supervisor = self._source.sequencer, self._source.supervisor
        if self._closed_at is None:
            if sequencer.looks < self._looks:
                return [sequencer.trouble or "the log was not looked at since"]
            self._closed_at = self._clock.monotonic()
        if self._end is None:
            # A new client is known, and gets its sessions, once its first entries are closed in a tick.
            if supervisor.looked_from < self._closed_at:
                return [supervisor.trouble or "the sessions were not looked after since"]
            newest = self._source.log.bounds().newest
            self._end = newest.end_seq if newest else 0
        return _behind(self._source, self._end)


def _behind(source: Source, end: int) -> list[str]:
    found = []
    for session in source.supervisor.sessions():
        standing = session.standing
        acked_seq = standing.acked.seq if standing.acked is not None else 0
        if standing.words.name != "log-entry sync" or acked_seq < end:
            to = f"{session.owed.client} to {session.owed.destination}"
            found.append(f"{to}: {acked_seq} of {end} ({_say(standing.words)})")
    return found


def _say(words: Words) -> str:
    return f"{words.name}: {words.detail}" if words.detail else words.name
