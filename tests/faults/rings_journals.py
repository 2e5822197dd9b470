"""Producers into several rings with a journal of their acknowledged entries: the oracle of a fault run."""

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from lr_client.producer import Producer, ProducerMessage, RingsProducer
from queues.clock import SYSTEM_CLOCK
from queues.errors import ConfigurationError, LrqError, OutcomeUnknownError, TransientError

CLIENT = "policy"
#: The keys of each producer.
KEYS = [f"meter-{number}" for number in range(24)]


class Outcome(Enum):
    """The end of one request."""

    ACKED = auto()
    #: Nothing is stored, and the producer ends or gets a longer list of rings.
    DROPPED = auto()
    #: Nothing is stored, because another ring takes the key.
    REFUSED = auto()


class JournalOfRings:
    """A producer with a thread for each ring, from the beginning to `stop`.

    `numbers` has the last acknowledged number of each stream `key/producer`. `acked` has the payloads by ring, in the
    order of the answers. An error that no fault explains is one of `problems`.
    """

    def __init__(self, name: str, named: Mapping[str, str], sinks: Sequence[str], seed: int) -> None:
        """Begin to send to the rings *named*, which have the endpoints of each ring by its site id."""
        self.name = name
        self.numbers = Counter[str]()
        self.acked: dict[str, list[bytes]] = {}
        self.problems: list[str] = []
        self.refusals = 0
        #: The longest time without an answer, in seconds, then the ring and the time of its end.
        self.longest = (0.0, "", 0.0)
        self._sinks, self._seed = [*sinks], seed
        self._named, self._wanted = dict(named), dict(named)
        self._stopping, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}", daemon=True)
        self._thread.start()

    @property
    def has_all_rings(self) -> bool:
        """Whether the producer sends to all rings that are known to it."""
        return self._named == self._wanted

    def know(self, named: Mapping[str, str], *, at_once: bool) -> None:
        """Let the producer know more rings; without *at_once* it uses the earlier list until a ring refuses a key."""
        self._wanted = dict(named)
        if at_once:
            self._ending.set()

    def stop(self, timeout: float) -> bool:
        """Settle the last requests, and end; return False if one has no answer within *timeout* seconds."""
        self._stopping.set()
        self._ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.problems:
            with RingsProducer(self._named, client=CLIENT, producer=self.name) as producer:
                lanes = [
                    threading.Thread(
                        target=self._run_lane, args=(producer, site), name=f"{self.name}-{site}", daemon=True
                    )
                    for site in self._named
                ]
                for lane in lanes:
                    lane.start()
                for lane in lanes:
                    lane.join()
            self._named = self._wanted
            if not self._stopping.is_set():
                self._ending.clear()

    def _run_lane(self, producer: RingsProducer, site: str) -> None:
        try:
            self._send_all(producer, site)
        except LrqError as error:
            self.problems.append(f"{self.name} got {type(error).__name__}: {error}")
            self._ending.set()

    def _send_all(self, producer: RingsProducer, site: str) -> None:
        chance = random.Random(f"{self._seed} {self.name} {site}")
        keys = [key for key in KEYS if producer.ring_of(key) == site]
        answered = SYSTEM_CLOCK.monotonic()
        while not self._ending.is_set():
            key = chance.choice(keys)
            stream = f"{key}/{self.name}"
            payload = f"{stream}:{self.numbers[stream] + 1}".encode()
            outcome = self._sent(producer, ProducerMessage(payload, self._sinks, partition_key=key))
            if outcome is Outcome.REFUSED:
                self._note_refusal(key, site)
            if outcome is not Outcome.ACKED:
                return
            self.numbers[stream] += 1
            now = SYSTEM_CLOCK.monotonic()
            if site in self.acked:
                # A new ring waits for the end of the growth before its first answer.
                self.longest = max(self.longest, (now - answered, site, now))
            self.acked.setdefault(site, []).append(payload)
            answered = now
            SYSTEM_CLOCK.wait(self._ending, 0.002)

    def _note_refusal(self, key: str, site: str) -> None:
        self.refusals += 1
        if self.has_all_rings:
            self.problems.append(f"{site} refuses {key} of {self.name}, which knows {len(self._named)} rings")
        self._ending.set()

    def _sent(self, producer: RingsProducer, message: ProducerMessage) -> Outcome:
        """Send a message until its outcome is known; while that is unknown, the request is never sent again."""
        while True:
            try:
                producer.send([message], timeout=5.0)
            except OutcomeUnknownError:
                if self._is_settled(producer.producer_for(str(message.partition_key))):
                    return Outcome.ACKED
            except TransientError:
                if self._ending.is_set():
                    return Outcome.DROPPED
                SYSTEM_CLOCK.wait(self._ending, 0.05)
            except ConfigurationError:
                return Outcome.REFUSED
            else:
                return Outcome.ACKED

    @staticmethod
    def _is_settled(producer: Producer) -> bool:
        """Repeat the request until its outcome is known; return whether it is stored."""
        while True:
            try:
                return bool(producer.settle(timeout=5.0))
            except OutcomeUnknownError:
                continue
            except (TransientError, ConfigurationError):
                # Nothing is stored: `send` tells the reason again.
                return False
