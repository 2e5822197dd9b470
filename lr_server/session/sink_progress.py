"""The sink's word about one session, as the stream hears it and the status shows it."""

from dataclasses import dataclass


@dataclass(slots=True)
class SinkProgress:
    """The subscriber has applied the log up to `applied_seq`; None before the sink's first answer.

    `waits`: entries wait at the source, because the subscriber does not keep up and the sink has no room. Several
    threads of a session read and set the fields without a lock.
    """

    received_seq: int = 0
    applied_seq: int | None = None
    waits: bool = False

    def note(self, received_seq: int, applied_seq: int) -> None:
        """Note an answer of the sink; nothing beyond the received entries can be applied."""
        self.received_seq = received_seq
        self.applied_seq = min(applied_seq, received_seq)

    @property
    def is_behind(self) -> bool:
        """Whether the sink has entries, or the end of a quiet tick, that the subscriber has not applied."""
        return self.applied_seq is not None and self.applied_seq < self.received_seq
