"""Server-sent events: each change reaches each tab, and the number of streams is bounded."""

import asyncio

import httpx
import pytest

from lrq.console.stream import MOST_STREAMS, Changes
from tests.waiting import eventually


@pytest.fixture
def engines(new_site):
    return {"paris": new_site("paris")}


async def _first_change(changes: Changes) -> list[bytes]:
    changes.bind(asyncio.get_running_loop())
    found = []
    stream = changes.stream()
    found.append(await anext(stream))
    asyncio.get_running_loop().run_in_executor(None, changes.tell)
    found.append(await anext(stream))
    assert changes.open == 1
    await stream.aclose()
    assert changes.open == 0
    return found


def test_a_change_told_by_a_thread_reaches_a_stream():
    assert asyncio.run(_first_change(Changes())) == [b"retry: 3000\n\n", b"event: change\ndata: 1\n\n"]


async def _closed(changes: Changes) -> list[bytes]:
    changes.bind(asyncio.get_running_loop())
    changes.close()
    return [each async for each in changes.stream()]


def test_a_closed_console_opens_no_stream():
    assert asyncio.run(_closed(Changes())) == []


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_more_tabs_than_the_limit_are_refused_and_the_pages_still_load(engines, visit):
    visitor = visit(engines)
    own = visitor.application.state.console

    async def many() -> tuple[list[int], int]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=visitor.origin, limits=limits, timeout=30) as client:
            opened = [await client.send(client.build_request("GET", "/events"), stream=True) for _ in range(80)]
            page = (await client.get("/")).status_code
            codes = [each.status_code for each in opened]
            for each in opened:
                await each.aclose()
            return codes, page

    codes, page = asyncio.run(many())
    assert page == 200
    assert codes.count(200) == MOST_STREAMS
    assert codes.count(503) == 80 - MOST_STREAMS
    eventually(lambda: own.changes.open == 0)
