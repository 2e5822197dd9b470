"""The ticks of one message are limited by all that they hold: item keys and destinations count too."""

from collections.abc import Sequence

import pytest

from lr_server.ring.recent_ticks import MOST_BYTES, RecentTicks
from queues.send_log.outbox import SourceTransaction
from queues.send_log.ring.tick_contents import TickContent, content_after, empty_end, weight_of
from tests.conftest import NewSite
from tests.lr_server.ring.stores import begin, new_store, reopen, stamp, take, transaction

SITES = [f"site-{number:050}" for number in range(100)]
TO_MANY = transaction(b"1", to=SITES)
WITH_KEYS = transaction(*[b"1"] * 11, item_key="k" * 500)


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("wide", [TO_MANY, WITH_KEYS], ids=["destinations", "item keys"])
def test_a_read_stays_below_its_bytes(new_site: NewSite, wide: SourceTransaction):
    engine = new_site("paris")
    store = new_store(engine)
    begin(2, store)
    ticks = [take([wide], store) for _ in range(5)]
    # Three ticks of about 5,500 bytes fit.
    from_memory = store.read(1, 64, 20_000)
    assert from_memory == ticks[:3]
    assert reopen(engine, store).read(1, 64, 20_000) == from_memory


def test_a_tick_above_the_bytes_is_read_alone(new_site: NewSite):
    engine = new_site("paris")
    store = new_store(engine)
    begin(2, store)
    ticks = [take([TO_MANY], store) for _ in range(2)]
    assert reopen(engine, store).read(1, 64, 100) == ticks[:1]


def test_destinations_count_for_the_memory_of_recent_ticks():
    log: list[TickContent] = []
    end, recent = empty_end("first"), RecentTicks()
    wide = [transaction(b"1", to=[f"{number}-{site}" for site in SITES]) for number in range(500)]
    for _ in range(8):
        content = content_after(end, wide, stamp())
        log.append(content)
        recent.keep(len(log) - 1, [content])
        end = end._replace(tick=content.tick)
    assert _all_bytes(log) > MOST_BYTES
    kept = recent.read(8 - MOST_BYTES // weight_of(log[0]), 64, MOST_BYTES)
    assert kept
    assert recent.read(0, 64, MOST_BYTES) == []


def _all_bytes(log: Sequence[TickContent]) -> int:
    return sum(map(weight_of, log))
