"""`browse` shows the rows of snapshots, at any boundaries of blocks."""

import pytest
from sqlalchemy import Engine, update

from queues import names
from queues.browse.api import Entry, Page, Wanted, browse, payload_at
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import writing
from queues.errors import CorruptFrameError
from queues.send_snapshot.block_packer import WriteLimits
from tests.lr_client.snapshot.providing import claim, publish, request, write_part

ROWS = [b"%d " % n * (n % 5) for n in range(11)]


def published(engine: Engine, destination: str, block_rows: int) -> str:
    (sync_id,) = request(engine, destination)
    attempt = claim(engine)
    limits = WriteLimits(block_rows=block_rows)
    parts = [write_part(engine, attempt, n, part, limits=limits) for n, part in enumerate((ROWS[:7], [], ROWS[7:]))]
    publish(engine, attempt, *parts)
    return sync_id


def look(engine: Engine, **wanted: object) -> Page:
    return browse(engine, names.SEND_SNAP_SYNC, Wanted(**wanted))  # type: ignore[arg-type]


def pages(engine: Engine, after: str = "", **wanted: object) -> list[list[Entry]]:
    """Return all pages after the key *after*."""
    found = []
    following: str | None = after
    while following is not None:
        page = look(engine, after=following, **wanted)
        found.append(list(page.entries))
        following = page.next
    return found


@pytest.mark.parametrize("block_rows", [1, 3, 1000])
def test_pages_of_any_size_from_any_row_on_show_all_rows(site: Engine, block_rows: int) -> None:
    first, second = published(site, "tokyo", block_rows), published(site, "lima", block_rows)
    wanted = [(f"{sync_id}:{n}", row) for sync_id in (first, second) for n, row in enumerate(ROWS, 1)]
    for limit in (1, 2, 4, 50):
        found = pages(site, limit=limit)
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert [(entry.position, entry.payload) for page in found for entry in page] == wanted
    for start, (position, _) in enumerate(wanted, 1):
        (rest,) = pages(site, after=position)
        assert [(entry.position, entry.payload) for entry in rest] == wanted[start:]


def test_a_page_ends_where_its_payloads_would_be_too_large(site: Engine) -> None:
    published(site, "tokyo", block_rows=3)
    found = pages(site, page_bytes=12)
    assert [entry.payload for page in found for entry in page] == ROWS
    assert all(len(page) == 1 or sum(len(entry.payload) for entry in page) <= 12 for page in found)
    assert any(len(page) > 1 for page in found)


def test_an_entry_shows_a_preview_and_on_request_the_whole_payload(site: Engine) -> None:
    sync_id = published(site, "tokyo", block_rows=3)
    shown = look(site, preview_bytes=2).entries
    assert [(entry.payload, entry.size) for entry in shown] == [(row[:2], len(row)) for row in ROWS]
    for number, row in enumerate(ROWS, 1):
        assert payload_at(site, names.SEND_SNAP_SYNC, f"{sync_id}:{number}") == row


def test_damaged_rows_are_reported(site: Engine) -> None:
    sync_id = published(site, "tokyo", block_rows=3)
    with writing(site) as connection:
        connection.execute(update(snapshot_blocks).where(snapshot_blocks.c.last_ord == 6).values(block=b"nonsense"))
    with pytest.raises(CorruptFrameError, match=f"rows 4 to 6 of snapshot {sync_id} are damaged"):
        look(site)
