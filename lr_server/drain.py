"""Waiting until everything that is committed has been acknowledged by everyone."""

import threading

from lr_server.source import Source
from lr_server.states import Words
from queues.clock import Clock
from queues.errors import WaitTimeoutError
from queues.log.port import Bounds

_PAUSE = 0.02


def drain(source: Source, timeout: float, clock: Clock) -> None:
    """See `LogReplicationServer.drain`."""
    deadline = clock.monotonic() + timeout
    never = threading.Event()
    looked = source.sequencer.looks
    source.sequencer.look()
    # One look may have begun before this call; the next one sees everything that is committed now.
    while source.sequencer.looks < looked + 2 and clock.monotonic() < deadline:
        clock.wait(never, _PAUSE)
    while waiting := _waiting(source, source.log.bounds()):
        if clock.monotonic() >= deadline:
            raise WaitTimeoutError(f"not drained after {timeout:g} s: {'; '.join(waiting)}")
        clock.wait(never, _PAUSE)


def _waiting(source: Source, bounds: Bounds) -> list[str]:
    end = bounds.newest.end_seq if bounds.newest else 0
    return [
        f"{session.owed.client} to {session.owed.destination}: {standing.acked.seq} of {end} ({_say(standing.words)})"
        for session in source.supervisor.sessions()
        if (standing := session.standing).words.name != "log-entry sync" or standing.acked.seq < end
    ]


def _say(words: Words) -> str:
    return f"{words.name}: {words.detail}" if words.detail else words.name
