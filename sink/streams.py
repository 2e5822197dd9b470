"""Which stream of each session is valid: the one that followed the last negotiation."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from queues.lineage import BranchOrigin
from queues.receive.writer_marks import Stored
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import Refuse, Speaker

#: (source, client)
SessionKey = tuple[str, str]

#: Above this number, the session with the oldest negotiation must negotiate again.
MAX_SESSIONS: Final = 4096


@dataclass(slots=True, eq=False)
class _Begun:
    """One negotiation; one stream may follow it."""

    generation: int
    installation: str = ""
    branches: Sequence[BranchOrigin] = ()
    followed: bool = False


@dataclass(slots=True, eq=False)
class ValidStream:
    """One call of `Sink.replicate`, the negotiation that it follows, and the queue after its last frame."""

    begun: _Begun | None = None
    left: tuple[SessionKey, Stored] | None = None


@dataclass(frozen=True, slots=True)
class Streams:
    """Remembers the last negotiation of each session; threads may share this object."""

    _begun: dict[SessionKey, _Begun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(
        self, key: SessionKey, generation: int, installation: str = "", branches: Sequence[BranchOrigin] = ()
    ) -> None:
        """Admit the next stream of this generation, and no older stream from now on; keep the told *branches*."""
        with self._lock:
            self._begun.pop(key, None)
            self._begun[key] = _Begun(generation, installation, branches)
            if len(self._begun) > MAX_SESSIONS:
                del self._begun[next(iter(self._begun))]

    def generation(self, key: SessionKey) -> int:
        """Return the generation of the last negotiation; 0 if there was none."""
        with self._lock:
            begun = self._begun.get(key)
            return 0 if begun is None else begun.generation

    def refusal_of_twin(self, speaker: Speaker) -> Refuse | None:
        """Return the refusal if another installation of the source has negotiated with the same generation."""
        with self._lock:
            begun = self._begun.get((speaker.source, speaker.client))
        if begun is None or begun.generation != speaker.generation or not begun.installation:
            return None
        if speaker.installation in ("", begun.installation):
            return None
        reason = f"another installation of {speaker.source} has generation {speaker.generation} already"
        return Refuse(Refusal.STALE_LEADER, reason, speaker.generation)

    def admits(self, key: SessionKey, generation: int, stream: ValidStream) -> bool:
        """Return whether *stream* follows the session's last negotiation; only the first stream after it does."""
        with self._lock:
            begun = self._begun.get(key)
            if begun is None or begun.generation != generation:
                return False
            if stream.begun is None and not begun.followed:
                begun.followed, stream.begun = True, begun
            return stream.begun is begun
