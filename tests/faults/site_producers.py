"""Producers of a run with several servers. Each keeps a journal, and the journal tells the entries that must arrive.

Line n of a journal is the request with number n. A producer writes the line before it sends the request. After a kill,
the next process of the name asks for the last number stored. Then the process sends the later lines.
"""

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from pathlib import Path
from typing import NamedTuple

from lr_client.producer import Producer
from lr_client.producer.answers import Produced
from queues.clock import SYSTEM_CLOCK
from queues.errors import ProducerTakenError, TransientError
from tests.faults.ledger import WRITTEN_ALL
from tests.faults.role_process import tell
from tests.faults.site_plan import SINKS, SitePlan

#: The most requests of a producer without an answer.
AT_ONCE = 8

Message = tuple[str, list[str]]


class Journal:
    """The requests of one producer, in a file that outlives its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text() if path.exists() else ""
        # A killed process may leave half a line, of a request that was never sent.
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        self.requests: list[list[Message]] = [json.loads(line) for line in whole.splitlines()]

    def add(self, request: list[Message]) -> None:
        """Write the next request."""
        with self._path.open("a") as file:
            file.write(json.dumps(request) + "\n")
        self.requests.append(request)


class _Sent(NamedTuple):
    number: int
    future: "Future[Produced]"


def journal_of(plan: SitePlan, name: str) -> Path:
    """Return the path of a producer's journal."""
    return Path(plan.folder) / f"{name}.journal"


def produced(plan: SitePlan) -> Counter[tuple[str, str, bytes]]:
    """Count the messages of all journals by client, sink and payload."""
    found: Counter[tuple[str, str, bytes]] = Counter()
    for name in plan.producer_names:
        for request in Journal(journal_of(plan, name)).requests:
            found.update((plan.client_of(name), sink, payload.encode()) for payload, to in request for sink in to)
    return found


def produce(plan: SitePlan, name: str, over: threading.Event) -> None:
    """Send requests until the plan's `no_more_writing` file exists, and until each line of the journal is stored."""
    journal = Journal(journal_of(plan, name))
    chance = random.Random(f"{plan.seed}/{name}/{os.getpid()}")
    is_complete = False
    while not over.is_set() and not is_complete:
        try:
            is_complete = _send_all(plan, name, journal, chance, over)
        except (ProducerTakenError, TransientError) as error:
            # A request of the killed process may arrive late: the journal has that request, too.
            print(f"{name} begins again: {error}", flush=True)
    if is_complete:
        tell(WRITTEN_ALL)
    over.wait()


def _send_all(plan: SitePlan, name: str, journal: Journal, chance: random.Random, over: threading.Event) -> bool:
    """Send the journal's rest and new requests; return whether the end of the writing was reached."""
    with Producer(plan.source_endpoints, client=plan.client_of(name), producer=name) as producer:
        stored = producer.last_sequence(timeout=20)
        assert stored <= len(journal.requests), f"{name} has {stored} stored requests, the journal fewer"
        tell("producing")
        while not over.is_set():
            is_over = plan.no_more_writing.exists()
            while not is_over and len(journal.requests) < stored + chance.randint(1, AT_ONCE):
                journal.add(_request(name, journal, chance))
            sent = [
                _Sent(number, producer.submit([(payload.encode(), to) for payload, to in journal.requests[number - 1]]))
                for number in range(stored + 1, min(stored + AT_ONCE, len(journal.requests)) + 1)
            ]
            if not sent:
                return True
            stored = _answered(sent, over)
            SYSTEM_CLOCK.wait(over, 0.2 * chance.random())
    return False


def _answered(sent: Sequence[_Sent], over: threading.Event) -> int:
    """Wait for the answers; return the number of the last one."""
    for number, future in sent:
        while not over.is_set():
            try:
                answer = future.result(timeout=0.5)
            except LateError:
                if future.done():
                    raise
                continue
            assert answer.sequence == number, f"request {number} was stored as {answer.sequence}"
            break
    return sent[-1].number


def _request(name: str, journal: Journal, chance: random.Random) -> list[Message]:
    """Return a new request of up to three messages, whose payloads `name:number` have growing numbers."""
    first = 10 * (len(journal.requests) + 1)
    messages = range(first, first + chance.randint(1, 3))
    return [(f"{name}:{n}", list(SINKS) if chance.randrange(3) else [chance.choice(SINKS)]) for n in messages]
