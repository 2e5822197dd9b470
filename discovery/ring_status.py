"""The member of a ring that a server runs, as the status tells of it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RingStatus:
    """The member of the ring at one server.

    Attributes:
        rank: The rank of the member: 0 leads by default, 1 takes over, and 2 follows.
        role: The state of docs/ring.md in lower case, such as "leading", or "closed" while the store is not open.
        generation: The generation that the member has promised last; 0 for none.
        leader: The rank that leads, as far as the member knows; None if it knows no leader.
        newest: The number of the newest tick in the member's log.
        released: The number of the newest released tick that the member knows.
        held: The ends of the log on the followers' disks, by rank; empty at a member that does not lead.
        alarm: The words for an operator; empty without any, and once the member leads, or is level with its leader.
        trimmed: The number of the newest tick whose entries are trimmed at this member; 0 for a whole log.
        rings: The number of rings that share the keys, by the settings of this server.
        acknowledging_followers: The followers that have an entry on their disks before its answer, by these settings.
        fenced_us: The time since which the member knows no leader that takes entries, in microseconds since 1970; 0
            with such a leader.
        silent: The ranks that the leader must hear before it takes entries; always empty if one follower is enough.
    """

    rank: int
    role: str
    generation: int = 0
    leader: int | None = None
    newest: int = 0
    released: int = 0
    held: tuple[int, ...] = ()
    alarm: str = ""
    trimmed: int = 0
    rings: int = 1
    acknowledging_followers: int = 1
    silent: tuple[int, ...] = ()
    fenced_us: int = 0

    @property
    def trouble(self) -> str:
        """Why the member is not part of a working ring, in one sentence; empty if it is."""
        match self.role:
            case "following" if self.alarm or self.leader is None:
                return self.alarm or "the ring has no leader now"
            case "leading" if self.silent:
                return (
                    f"{_ranks(self.silent)}, and acknowledging_followers is 2, so the ring takes no entries: "
                    "start that server, or mend the network"
                )
            case "leading" | "following":
                return ""
            case "fenced" | "proposing" | "adopting":
                return "too few members of the ring answer, so it takes no entries: start them, or mend the network"
            case "newcomer":
                return self.alarm or "the store of this member is empty: it waits for both others"
            case _:
                return self.alarm or f"the member of the ring is {self.role}"

    def as_json(self) -> dict[str, Any]:
        """Return the value of `server.ring`."""
        return {
            "rank": self.rank,
            "role": self.role,
            "generation": self.generation,
            "leader": self.leader,
            "newest": self.newest,
            "released": self.released,
            "held": list(self.held),
            "alarm": self.alarm,
            "trimmed": self.trimmed,
            "rings": self.rings,
            "acknowledging_followers": self.acknowledging_followers,
            "silent": list(self.silent),
            "fenced_us": self.fenced_us,
        }


def _ranks(silent: tuple[int, ...]) -> str:
    names = " and ".join(f"rank {rank}" for rank in silent)
    return f"{names} {'is' if len(silent) == 1 else 'are'} silent"
