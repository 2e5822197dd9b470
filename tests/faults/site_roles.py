"""The roles of a fault run with several servers: a writer, a server and a producer."""

import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress

import queues
from lr_server import LogReplicationServer
from queues.clock import SYSTEM_CLOCK
from queues.errors import StoreUnavailableError
from tests.faults.ledger import WRITTEN_ALL
from tests.faults.role_process import run_role, tell
from tests.faults.site_ledger import Writer
from tests.faults.site_plan import SINKS, SOURCE, SitePlan
from tests.faults.site_producers import produce

WRITERS = 2


def writer(plan: SitePlan, name: str, over: threading.Event) -> None:
    """Write transactions in two threads until the plan's `no_more_writing` file exists."""
    engine = queues.create_engine(plan.urls[SOURCE])

    def write(number: int) -> None:
        me = f"{name}.{os.getpid()}.{number}"
        chance = random.Random(f"{plan.seed}/{me}")
        entries = Writer(engine, me, plan.client_names, SINKS)
        while not over.is_set() and not plan.no_more_writing.exists():
            entries.write(chance)
            tell("writing")
            SYSTEM_CLOCK.wait(over, 0.04 * chance.random())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(WRITTEN_ALL)
    over.wait()


def server(plan: SitePlan, name: str, over: threading.Event) -> None:
    """Run a server and print its role."""
    with LogReplicationServer(plan.settings(name)) as running:
        while not over.wait(0.1):
            # PostgreSQL may have ended the connections of a paused process.
            with suppress(StoreUnavailableError):
                tell(running.server_status().reason)


ROLES: dict[str, Callable[[SitePlan, str, threading.Event], None]] = {
    "writer": writer,
    "server": server,
    "producer": produce,
}


if __name__ == "__main__":
    run_role(ROLES, SitePlan.load)
