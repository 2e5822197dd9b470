"""The limits of each session, from the settings of its server."""

from typing import Final

from lr_server.session.context import SessionLimits
from lr_server.settings import Settings
from queues.backoff import Backoff

#: A session's thread that waits for the next try costs less than another one, for so many seconds.
_PATIENCE: Final = 2.0


def session_limits(settings: Settings) -> SessionLimits:
    """Return the limits that *settings* give to all sessions."""
    return SessionLimits(
        window_frames=settings.window_frames,
        window_bytes=settings.window_bytes,
        batch_bytes=settings.max_batch_bytes,
        heartbeat_seconds=settings.heartbeat_seconds,
        stall_seconds=settings.stall_seconds,
        slow_retry_seconds=settings.slow_retry_seconds,
        backoff=Backoff(settings.retry_first_seconds, settings.retry_cap_seconds),
        initial_sync=settings.initial_sync,
        retry_limit=None if settings.retry_forever else settings.retry_limit,
        # The supervisor looks once in `snapshot_poll_seconds`.
        retry_patience=max(_PATIENCE, settings.snapshot_poll_seconds),
    )
