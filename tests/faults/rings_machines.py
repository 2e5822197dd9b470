"""Several rings on three machines, with a relay for each way from one server to another."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.faults.cut_relay import CutRelay
from tests.faults.rings_ledger import DiskRecord, read_disk, watch_disk
from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import World

MACHINES = RANKS
_BEFORE_PEERS = "segment_bytes = 2000\ntrim_seconds = 0.2\n"


class WatchedRing(RingSite):
    """One ring; `relays` are the ways between its members, by the ranks of both ends."""

    def __init__(
        self, world: World, stack: ExitStack, folder: Path, sinks: Mapping[str, str], site: str, rings: int
    ) -> None:
        """Write and found a ring that is one of *rings*; its servers are not begun yet."""
        super().__init__(world, stack, folder / site, sinks, site)
        self.more = _BEFORE_PEERS
        self.relays: dict[tuple[int, int], CutRelay] = {}
        self.lost: list[DiskRecord] = []
        for rank in RANKS:
            for other in RANKS:
                if other != rank:
                    relay = CutRelay(self.folder / f"r{rank}{other}", self.folder / f"m{other}")
                    stack.callback(relay.close)
                    self.relays[rank, other] = relay
        for rank in RANKS:
            self.share_keys(rank, rings)
        self.found()

    def share_keys(self, rank: int, rings: int) -> None:
        """Write the settings of a server, which is one of *rings* rings from its next start on."""
        self.more_of_ring = f"trim = true\nrings = {rings}\n"
        ways = [end if other == rank else self.relays[rank, other].endpoint for other, end in enumerate(self.members)]
        self.write(rank, ways)

    def new_tables(self, rank: int) -> None:
        super().new_tables(rank)
        watch_disk(self.database(rank))

    def replace_disk(self, rank: int) -> None:
        """Kill a server, and begin it again with an empty disk."""
        self.kill(rank)
        self.lost.append(read_disk(self.database(rank), f"the lost disk of rank {rank}"))
        for file in (*self.folder.glob(f"{rank}.db*"), self.witness(rank)):
            file.unlink()
        self.new_tables(rank)
        self.begin(rank)

    def disks(self) -> list[DiskRecord]:
        """Return the records of all disks, those of lost ones too."""
        return [*self.lost, *(read_disk(self.database(rank), f"the disk of rank {rank}") for rank in RANKS)]

    def is_whole(self) -> bool:
        """Whether one member leads and two follow."""
        roles = sorted(each["status"]["role"] if each["status"] else "" for each in self.look(0)["members"])
        return roles == ["following", "following", "leading"]

    def keeps_end_of(self, log: Sequence[bytes], rank: int) -> bool:
        """Whether the file of a member has the newest entries of *log*; older ones may be trimmed there."""
        kept = self.log(rank)
        return bool(kept) and [*log[-len(kept) :]] == kept

    def tell(self) -> str:
        """Describe the members, for a problem."""
        return json.dumps(self.look(0))


class Machines:
    """The rings of one application; machine m has the member of rank (m - n) of ring n, modulo three."""

    def __init__(self, world: World, stack: ExitStack, folder: Path, sinks: Mapping[str, str]) -> None:
        self._world, self._stack, self._folder, self._sinks = world, stack, folder, sinks
        self.rings: list[WatchedRing] = []

    def add(self, rings: int) -> WatchedRing:
        """Found the next one of *rings* rings, which is not served yet."""
        site = f"paris-{len(self.rings)}"
        self.rings.append(WatchedRing(self._world, self._stack, self._folder, self._sinks, site, rings))
        return self.rings[-1]

    def servers(self, machine: int) -> Iterator[tuple[WatchedRing, int]]:
        """Give the rings with a running server at the machine, each with the server's rank."""
        for number, ring in enumerate(self.rings):
            rank = (machine - number) % len(RANKS)
            if rank in ring.servers:
                yield ring, rank

    def ways(self, machine: int, other: int) -> Iterator[CutRelay]:
        """Give the ways of all rings from one machine to another."""
        for number, ring in enumerate(self.rings):
            yield ring.relays[(machine - number) % len(RANKS), (other - number) % len(RANKS)]

    def heal(self) -> None:
        """Heal all ways."""
        for ring in self.rings:
            for relay in ring.relays.values():
                relay.heal()
