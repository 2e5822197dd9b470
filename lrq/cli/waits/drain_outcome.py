"""The outcome of a wait for sessions, and the sessions that lag behind. Pure."""

from dataclasses import dataclass
from typing import Any

from lrq.cli.words import plural
from queues.states import SessionState


@dataclass(frozen=True, slots=True)
class Laggard:
    """A session that has not acknowledged all entries, or is not in log-entry sync.

    `applied_seq` is None unless the wait is for applied entries.
    """

    client: str
    destination: str
    state: SessionState
    reason: str
    acked_seq: int
    applied_seq: int | None = None

    @property
    def reached_seq(self) -> int:
        """The sequence that counts: of applied entries if these are waited for, or else of acknowledged ones."""
        return self.acked_seq if self.applied_seq is None else min(self.acked_seq, self.applied_seq)

    @property
    def in_log(self) -> bool:
        """Whether the session sends the log, also that of a link that ends."""
        return self.state in (SessionState.LOG_ENTRY_SYNC, SessionState.DRAINING)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq drain --json`."""
        return {
            "client": self.client,
            "destination": self.destination,
            "state": self.state.value,
            "reason": self.reason,
            "acked_seq": self.acked_seq,
            "applied_seq": self.applied_seq,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a wait; `seq` is the sequence to acknowledge, None if a committed entry is in no tick yet.

    `is_other_member`: the file belongs to a member of a ring that does not lead, and may lack the newest entries.
    """

    seq: int | None
    sessions: int
    laggards: tuple[Laggard, ...]
    missing: tuple[str, ...]
    seconds: float
    server: bool
    has_ended: bool = False
    is_other_member: bool = False

    @property
    def drained(self) -> bool:
        """Whether no session in the scope is missing, and all have acknowledged all entries."""
        return self.seq is not None and not self.laggards and not self.missing and not self.is_other_member

    def reasons(self) -> list[str]:
        """Return one clause for each reason why entries are still outstanding."""
        found = []
        if self.is_other_member:
            return ["this member of the ring does not lead: run the command at the member that leads"]
        if not self.server:
            found.append("no server works for this site, run `lrq serve`")
        if self.seq is None:
            found.append("some committed entries are in no tick yet")
        found += [f"there is no session to {name}" for name in self.missing]
        for lag in self.laggards:
            state = f"{lag.state}, {lag.reason}" if lag.reason else lag.state.value
            of = "" if self.seq is None else f" of {self.seq}"
            verb = "has applied" if lag.reached_seq < lag.acked_seq else "has"
            found.append(f"{lag.client} to {lag.destination} {verb} {lag.reached_seq}{of} ({state})")
        return found

    def words(self) -> str:
        """Return the line that reports success."""
        if not self.sessions and self.has_ended:
            return "drained: every link has ended"
        if not self.sessions:
            return "drained: there is nothing to replicate"
        return f"drained: {plural(self.sessions, 'session')} up to {self.seq} after {self.seconds:.1f} s"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq drain --json`; `seconds` is the time that passed."""
        return {
            "drained": self.drained,
            "seq": self.seq,
            "sessions": self.sessions,
            "laggards": [lag.as_json() for lag in self.laggards],
            "missing": list(self.missing),
            "server": self.server,
            "seconds": round(self.seconds, 3),
        }
