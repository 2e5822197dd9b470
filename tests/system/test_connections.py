"""Applications with connections of every kind transmit beside each other; each entry is delivered exactly once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from lr_client import LRMessageWithDestinations, PositionToken, wait_applied
from tests.lr_client.connections.applications import POSTGRESQL, SQLITE, Application, Open, configure_django, run
from tests.system.world import World
from tests.waiting import eventually

KINDS = {"sqlite": SQLITE, "postgresql": POSTGRESQL}
ROUNDS = 5


async def transmit_and_fail(kind: str, app: Application) -> PositionToken:
    """Commit `ROUNDS` transactions, each between one that is rolled back and one with a savepoint that is."""
    for number in range(ROUNDS):
        async with app.transaction(fails=True):
            await app.transmit(b"never")
        async with app.transaction():
            await app.transmit(f"{kind} {number} a".encode())
            async with app.savepoint(fails=True):
                await app.transmit(b"never")
            token = await app.transmit_all(
                LRMessageWithDestinations(f"{kind} {number} b".encode(), ["tokyo"]),
                LRMessageWithDestinations(f"{kind} {number} c".encode(), ["tokyo", "lima"]),
            )
    return token


@pytest.mark.long
def test_entries_of_all_kinds_of_connections_are_delivered_exactly_once_and_in_order(
    world: World, dialect: str
) -> None:
    configure_django()
    tokyo, lima = world.subscribe("tokyo"), world.subscribe("lima")
    world.link("paris", "tokyo", "lima", initial_sync="log")
    paris, kinds = world.site("paris"), KINDS[dialect]

    def application(kind: str, opening: Open) -> PositionToken:
        return run(opening, paris, lambda app: transmit_and_fail(kind, app))

    with ThreadPoolExecutor(len(kinds)) as threads:
        tokens = list(threads.map(application, kinds, kinds.values()))
    for token in tokens:
        world.client.wait_replicated(paris, token, ["tokyo", "lima"], timeout=30)
        wait_applied(world.site("tokyo"), token, timeout=30)
    for recorder, parts in ((tokyo, "abc"), (lima, "c")):
        wanted = ROUNDS * len(kinds) * len(parts)
        # A commit is visible in the database a moment before the recorder notes it.
        eventually(lambda log=recorder.log, wanted=wanted: len(log("paris")) >= wanted)
        delivered = [payload.decode() for payload in recorder.log("paris")]
        assert len(delivered) == wanted
        for kind in kinds:
            expected = [f"{kind} {number} {part}" for number in range(ROUNDS) for part in parts]
            assert [entry for entry in delivered if entry.startswith(f"{kind} ")] == expected
