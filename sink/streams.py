"""The negotiations that this process has answered, for streams that no stored number names.

Most streams need none of this: their number is the version of the stored marks. Two kinds of streams need the memory:
those of an unregistered queue, which has no marks yet, and those of an older source, which tells no number.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queues.lineage import BranchOrigin
from queues.receive.writer_marks import Stored
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import Refuse, Speaker

#: (source, client)
SessionKey = tuple[str, str]

#: The most remembered negotiations; above, the oldest one is forgotten, and its session may have to negotiate again.
MAX_SESSIONS: Final = 4096
#: The number of a stream whose queue was not registered at the negotiation, and of an older source.
UNNUMBERED: Final = 0


@dataclass(slots=True, eq=False)
class _Begun:
    """One negotiation; one stream may follow it."""

    generation: int
    number: int = UNNUMBERED
    installation: str = ""
    branches: Sequence[BranchOrigin] = ()
    followed: bool = False


class LastFrame(NamedTuple):
    """The session and the number that the last frame of a stream has told, and the queue as that frame has left it."""

    key: SessionKey
    told: int
    stored: Stored


@dataclass(slots=True, eq=False)
class ValidStream:
    """One call of `Sink.replicate`, the remembered negotiation that it follows, and its last frame."""

    begun: _Begun | None = None
    last: LastFrame | None = None


@dataclass(frozen=True, slots=True)
class Streams:
    """Remembers the last negotiation of each session; threads may share this object."""

    _begun: dict[SessionKey, _Begun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, speaker: Speaker, number: int = UNNUMBERED, branches: Sequence[BranchOrigin] = ()) -> None:
        """Admit the next stream of *speaker*'s generation as *number*, and no older stream; keep the told *branches*.

        Branches that are stored already need not be given.
        """
        key = speaker.source, speaker.client
        with self._lock:
            self._begun.pop(key, None)
            self._begun[key] = _Begun(speaker.generation, number, speaker.installation, branches)
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

    def number(self, key: SessionKey, generation: int, told: int, stream: ValidStream) -> int | None:
        """Return the number of *stream*, whose frame has *told* one; None if the stream follows no negotiation.

        A number that is not remembered may be of another server, or from before a restart. So the number is returned
        as told, and the stored marks decide. Of several streams after a remembered negotiation only the first counts.
        """
        with self._lock:
            begun = self._begun.get(key)
            if told != UNNUMBERED and (begun is None or begun.number != told):
                return told
            if begun is None or begun.generation != generation:
                return None
            if stream.begun is None and not begun.followed:
                begun.followed, stream.begun = True, begun
            return begun.number if stream.begun is begun else None
