"""The story: a ring takes entries all the time, while its leader is killed, and another member is cut off."""

from collections.abc import Callable
from typing import Final

import queues
from discovery.ring_status import RingStatus
from lr_server.ring.codec import RingAddress
from lr_server.ring.look import look_at
from lr_server.ring.seat import TOKEN
from lrq.demo.children import Children, DemonstrationError
from lrq.demo.ring.files import are_alike, generations, read_files
from lrq.demo.ring.listener import count, numbers
from lrq.demo.ring.meter import Meter
from lrq.demo.ring.narrator import Narrator
from lrq.demo.ring.places import LEASE, MEMBERS, RING, SINK, RingPlaces
from lrq.demo.ring.proof import prove
from lrq.demo.ring.report import RingReport
from queues.clock import SYSTEM_CLOCK, poll
from queues.errors import LrqError

#: Time between two looks, in seconds.
LOOK: Final = 0.1
#: Time limit for each step of the story, in seconds.
PATIENCE: Final = 120.0
#: Number of entries that the ring acknowledges before the next step.
A_FEW: Final = 100


class RingStory:
    """Runs the steps of the story and tells them by *narrator*."""

    def __init__(self, children: Children, places: RingPlaces, meter: Meter, narrator: Narrator) -> None:
        """Take founded members, and processes and a producer that are not started yet."""
        self._children = children
        self._places = places
        self._meter = meter
        self._narrator = narrator

    def tell(self) -> RingReport:
        """Run all steps; return the report."""
        self._begin()
        self._kill_the_leader()
        self._bring_it_back()
        self._cut_off_a_follower()
        self._narrator.say("the producer stops; the last entries arrive")
        if not self._meter.finish(PATIENCE):
            raise DemonstrationError(f"the last entry is not acknowledged: {self._meter.trouble}")
        return self._conclude()

    def _begin(self) -> None:
        self._narrator.say("paris begins on a ring: three servers with a file each, and no database server")
        for role in (*MEMBERS, SINK):
            self._children.start(role)
        self._until_led_by(0)
        self._meter.start()
        self._until_more()
        self._narrator.say(
            f"rank 0 leads generation {self._generation(0)}, ranks 1 and 2 follow; a producer sends numbers to tokyo"
        )

    def _kill_the_leader(self) -> None:
        self._children.kill(MEMBERS[0])
        self._narrator.say("rank 0: killed in the middle of its work (SIGKILL)")
        self._until_led_by(1)
        self._until_more()
        self._narrator.say(
            f"rank 1 leads generation {self._generation(1)}; "
            f"the producer went on there after a pause of {self._meter.longest_pause:.1f} s"
        )

    def _bring_it_back(self) -> None:
        self._narrator.say("rank 0: started again; it copies the ticks that it missed")
        self._children.start(MEMBERS[0])
        self._until_led_by(0)
        self._until_more()
        self._narrator.say(f"rank 0 leads again, in generation {self._generation(0)}")

    def _cut_off_a_follower(self) -> None:
        self._children.stop(MEMBERS[1])
        self._narrator.say(f"rank 1: cut off for {2 * LEASE:g} s (SIGSTOP), so no message gets an answer there")
        before, end = len(self._meter.acknowledged), SYSTEM_CLOCK.monotonic() + 2 * LEASE
        self._until_more()
        self._until("the cut to last", lambda: SYSTEM_CLOCK.monotonic() >= end)
        taken = len(self._meter.acknowledged) - before
        self._narrator.say(f"ranks 0 and 2 went on, and took {taken:,} entries meanwhile")
        self._children.resume(MEMBERS[1])
        self._until("rank 1 to follow again", self._is_level)
        self._narrator.say("rank 1: has copied the ticks that it missed, and follows again")

    def _conclude(self) -> RingReport:
        engine = queues.create_engine(self._places.database(SINK))
        owed = self._meter.acknowledged
        poll(lambda: count(engine), lambda held: held >= len(owed), timeout=PATIENCE, pause=LOOK)
        heard = numbers(engine)
        engine.dispose()
        self._narrator.say("comparing tokyo with the producer, and the three files with each other")
        files = poll(lambda: read_files(self._places), are_alike, timeout=PATIENCE, pause=LOOK)
        return RingReport(
            seconds=self._narrator.seconds,
            numbers=prove(owed, heard),
            ticks=[len(file) for file in files],
            are_files_alike=are_alike(files),
            generations=generations(files[0]),
            longest_pause=self._meter.longest_pause,
        )

    def _until_led_by(self, rank: int) -> None:
        self._until(f"rank {rank} to lead", lambda: self._leads(rank))

    def _until_more(self) -> None:
        """Wait until the ring has acknowledged `A_FEW` further entries."""
        wanted = len(self._meter.acknowledged) + A_FEW
        self._until("the ring to take entries", lambda: len(self._meter.acknowledged) >= wanted)

    def _until(self, words: str, fact: Callable[[], bool]) -> None:
        def look() -> bool:
            self._children.check()
            return fact()

        if not poll(look, bool, timeout=PATIENCE, pause=LOOK):
            trouble = self._meter.trouble or "the producer has no error"
            raise DemonstrationError(f"waited {PATIENCE:.0f} s in vain for {words}: {trouble}")

    def _leads(self, rank: int) -> bool:
        status = self._look(rank)
        return status is not None and status.role == "leading" and status.leader == rank

    def _is_level(self) -> bool:
        """Return whether rank 1 has all ticks that rank 0 had a moment before."""
        leader, follower = self._look(0), self._look(1)
        return leader is not None and follower is not None and follower.newest >= leader.newest

    def _generation(self, rank: int) -> int:
        status = self._look(rank)
        return 0 if status is None else status.generation

    def _look(self, rank: int) -> RingStatus | None:
        try:
            return look_at(RingAddress(RING, TOKEN), self._places.endpoint(MEMBERS[rank]), None)
        except LrqError:
            return None
