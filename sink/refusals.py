"""The present refusals of a sink: the log tells each once, and the server learns that nothing can be stored."""

import math
import threading
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from queues.clock import Clock
from queues.errors import LrqError, SetupError, StoreUnavailableError
from queues.logs import logger
from queues.names import MAX_NAME_LENGTH
from queues.wire import replication_pb2 as pb
from queues.words import cleaned
from sink.protocol.log_rules import Refuse
from sink.streams import MAX_SESSIONS

#: Without a further one, a refusal is over after so many seconds: no session without work shows that itself.
FORGOTTEN: Final = 60.0
#: The database counts as unfit once it has refused each entry for so many seconds.
PATIENCE: Final = 5.0

_log = logger("lrq.sink")


class RefusedStep(Enum):
    """The part of an exchange that was refused; each ends only by a success of its own."""

    NEGOTIATION = auto()
    FRAME = auto()


@dataclass(slots=True)
class _Present:
    """A refusal that lasts; `first` is since when the database refuses, infinite while it does not.

    `is_unfit`: the database is away, full or not set up, so that another entry would be refused too.
    """

    kind: int
    reason: str
    last: float
    first: float = math.inf
    is_unfit: bool = False


class Refusals:
    """The refusals of all sessions that last now. For several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._present: dict[tuple[str, str, RefusedStep], _Present] = {}
        self._stored_at = -math.inf
        self._guard = threading.Lock()

    @property
    def trouble(self) -> str:
        """The reason why each entry has been refused by the database for `PATIENCE` or longer; empty if all is well."""
        now = self._clock.monotonic()
        with self._guard:
            for (source, client, _), each in self._present.items():
                if each.is_unfit and now - each.last < FORGOTTEN and now - max(each.first, self._stored_at) >= PATIENCE:
                    return _words(source, client, each)
        return ""

    @property
    def lasting(self) -> str:
        """The reason why the database has refused each entry of one session for `PATIENCE` or longer; empty if none.

        Unlike `trouble`, a constraint or a trigger counts too, and other sessions may store meanwhile.
        """
        now = self._clock.monotonic()
        with self._guard:
            for (source, client, _), each in self._present.items():
                if now - each.last < FORGOTTEN and now - each.first >= PATIENCE:
                    return _words(source, client, each)
        return ""

    def note(self, session: pb.SessionId, step: RefusedStep, refuse: Refuse, error: BaseException | None) -> None:
        """Keep a refusal until `end`, and log a new one; *error* is its cause, if there is one."""
        key, now = _key(session, step), self._clock.monotonic()
        said = refuse.kind, cleaned(refuse.reason)
        is_unfit = isinstance(error, StoreUnavailableError | SetupError)
        with self._guard:
            present = [each for each in self._of(session) if now - each.last < FORGOTTEN]
            before = self._present.pop(key, None)
            since = now if before is None or before not in present else min(now, before.first)
            by_database = is_unfit or isinstance(error, SQLAlchemyError)
            self._present[key] = _Present(*said, now, since if by_database else math.inf, is_unfit)
            if len(self._present) > MAX_SESSIONS:
                del self._present[next(iter(self._present))]
        if said not in [(each.kind, each.reason) for each in present]:
            kind = pb.Refusal.Kind.Name(refuse.kind)
            bug = False if error is None or isinstance(error, LrqError | SQLAlchemyError) else error
            _log.warning("frame refused", source=key[0], client=key[1], kind=kind, reason=said[1], exc_info=bug)

    def end(self, session: pb.SessionId, step: RefusedStep, *, stores: bool) -> None:
        """Forget the refusal of a session after a success of *step*; log the end of the last one.

        *stores*: the success has stored entries. Another one does not show that the database is fit for frames again.
        """
        if not self._present:
            return
        key = _key(session, step)
        with self._guard:
            if stores:
                self._stored_at = self._clock.monotonic()
            found = self._present.get(key)
            if found is None or (step is RefusedStep.FRAME and not stores and found.first < math.inf):
                return
            del self._present[key]
            is_over = not self._of(session)
        if is_over:
            _log.info("frames are taken again", source=key[0], client=key[1])

    def _of(self, session: pb.SessionId) -> list[_Present]:
        keys = (_key(session, step) for step in RefusedStep)
        return [self._present[key] for key in keys if key in self._present]


def _words(source: str, client: str, refusal: _Present) -> str:
    return f"nothing of {client} from {source} can be stored: {refusal.reason}"


def _key(session: pb.SessionId, step: RefusedStep) -> tuple[str, str, RefusedStep]:
    # The names may be malformed.
    return cleaned(session.source, MAX_NAME_LENGTH), cleaned(session.client, MAX_NAME_LENGTH), step
