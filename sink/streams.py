"""Which stream of a session is the valid one."""

import threading
from dataclasses import dataclass, field
from typing import Final

from queues.receive.receiving import Stored

#: (source, client)
SessionKey = tuple[str, str]

#: Beyond this, the session that negotiated longest ago has to do so again.
MAX_SESSIONS: Final = 4096


@dataclass(slots=True, eq=False)
class _Begun:
    """One negotiation, which one stream may follow."""

    generation: int
    followed: bool = False


@dataclass(slots=True, eq=False)
class Stream:
    """One call of `Sink.replicate`, the negotiation that it follows, and how the queue stood after its last frame."""

    begun: _Begun | None = None
    known: tuple[SessionKey, Stored] | None = None


@dataclass(frozen=True, slots=True)
class Streams:
    """Remembers of each session who negotiated last; threads may share it."""

    _begun: dict[SessionKey, _Begun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, key: SessionKey, generation: int) -> None:
        """Let the next stream of this generation in, and no older one any more."""
        with self._lock:
            self._begun.pop(key, None)
            self._begun[key] = _Begun(generation)
            if len(self._begun) > MAX_SESSIONS:
                del self._begun[next(iter(self._begun))]

    def generation(self, key: SessionKey) -> int:
        """Return the generation that negotiated last; 0 if none did."""
        with self._lock:
            begun = self._begun.get(key)
            return 0 if begun is None else begun.generation

    def admits(self, key: SessionKey, generation: int, stream: Stream) -> bool:
        """Tell whether *stream* follows the session's last negotiation; if no stream does yet, from now on it does."""
        with self._lock:
            begun = self._begun.get(key)
            if begun is None or begun.generation != generation:
                return False
            if stream.begun is None and not begun.followed:
                begun.followed, stream.begun = True, begun
            return stream.begun is begun
