"""The sink's word about one session, as the stream hears it and the status shows it."""

from dataclasses import dataclass

from lr_server.session.inflight import Inflight
from queues.positions import Position


@dataclass(slots=True)
class SinkProgress:
    """The subscriber has applied the log up to `applied_seq`; None before the sink's first answer.

    `acked`: the sink has the log durably up to here; None before its first answer too. `waits`: entries wait at the
    source, because the subscriber does not keep up and the sink has no room. Several threads of a session read and set
    the fields without a lock.
    """

    received_seq: int = 0
    applied_seq: int | None = None
    waits: bool = False
    acked: Position | None = None

    def note(self, received_seq: int, applied_seq: int) -> None:
        """Note an answer of the sink; nothing beyond the received entries can be applied."""
        self.received_seq = received_seq
        self.applied_seq = min(applied_seq, received_seq)

    @property
    def is_behind(self) -> bool:
        """Whether the sink has entries, or the end of a quiet tick, that the subscriber has not applied."""
        return self.applied_seq is not None and self.applied_seq < self.received_seq


class Questions:
    """The times at which an idle session asks for the progress of a subscriber that is behind.

    The first question comes after *heartbeat* seconds. Without progress each pause is twice the last one, up to *idle*.
    """

    def __init__(self, progress: SinkProgress, inflight: Inflight, *, heartbeat: float, idle: float) -> None:
        self._progress = progress
        self._inflight = inflight
        self._idle = idle
        self._heartbeat = self._doubled = heartbeat
        self._seen = progress.applied_seq

    @property
    def pause(self) -> float:
        """The longest time until the next look, in seconds."""
        if self._inflight.busy:  # the answers may say that the subscriber is behind
            return self._heartbeat
        if not self._progress.is_behind:
            return self._idle
        return self._heartbeat if self._progress.applied_seq != self._seen else self._doubled

    def is_due(self, passed: float) -> bool:
        """Return whether to ask, *passed* seconds after the last frame."""
        return not self._inflight.busy and self._progress.is_behind and passed >= self.pause

    def asked(self) -> None:
        """Note a question."""
        applied_seq = self._progress.applied_seq
        self._doubled = min(2 * self._doubled, self._idle) if applied_seq == self._seen else self._heartbeat
        self._seen = applied_seq
