"""Ticks of given rows, as a source takes them."""

from queues.names import SiteId, client_name, site_id
from queues.positions import Tick, Visibility
from queues.send_log.port import LogRow, SessionKey, TickRows

TOKYO, LIMA = site_id("tokyo"), site_id("lima")
SETS: dict[int, frozenset[SiteId]] = {1: frozenset({TOKYO}), 2: frozenset({LIMA}), 3: frozenset({TOKYO, LIMA})}


def owed(destination: SiteId = TOKYO, client: str = "policy") -> SessionKey:
    return SessionKey(client_name(client), destination)


def row(number: int, *, transaction: int = 0, item: str | None = None, tag_set: int = 1, client: str = "policy"):
    """Return the log row with the id *number*; by default its transaction has that id too."""
    payload = f"entry {number}".encode()
    return LogRow(transaction or number, number, number, client, tag_set, item, 1_000 + number, payload)


def group(number: int, *rows: LogRow, start: int | None = None) -> TickRows:
    """Return tick *number* with *rows*; by default it has one row, and all ticks before it too."""
    held = rows or (row(number),)
    begin = number - 1 if start is None else start
    end = begin + len(held)
    tick = Tick(
        number=number, uid=number, branch="b1", start_seq=begin, end_seq=end, bytes_total=0, is_large=False,
        mark=str(Visibility(high=held[-1].id)), created_us=number,
    )  # fmt: skip
    return TickRows(tick, held, SETS)
