"""The program of `docs/payloads.md` deletes, and reads both forms of a payload, also from a snapshot."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lrq.testing import deliver, pair, transmitted
from tests.conftest import NewSite
from tests.house.page_blocks import take

(PROGRAM,) = take(__name__, "docs/payloads.md", "python")
BOTH = pytest.mark.parametrize("dialect", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def made() -> dict[str, Any]:
    """Give the names that the program of the page makes."""
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    return names


def with_orders(engine: Engine) -> Engine:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, pieces INTEGER NOT NULL)"))
    return engine


def orders(session: Session) -> list[tuple[int, int]]:
    return [(row.id, row.pieces) for row in session.execute(text("SELECT id, pieces FROM orders ORDER BY id"))]


@BOTH
def test_an_item_is_saved_and_deleted_at_both_sites(made: dict[str, Any], new_site: NewSite):
    tokyo = with_orders(new_site("tokyo"))
    with Session(with_orders(new_site("paris"))) as session:
        made["save"](session, 1, 3, ["tokyo"])
        made["save"](session, 2, 4, ["tokyo"])
        made["remove"](session, 1, ["tokyo"])
        made["remove"](session, 9, ["tokyo"])
        sent = transmitted(session)
        assert orders(session) == [(2, 4)]
    assert [each.item_key for each in sent] == ["1", "2", "1", "9"]
    assert deliver(tokyo, made["apply"], sent)
    with Session(tokyo) as session:
        assert orders(session) == [(2, 4)]


@BOTH
def test_both_forms_are_read_and_a_newer_one_is_refused(made: dict[str, Any], new_site: NewSite):
    tokyo = with_orders(new_site("tokyo"))
    earlier = [{"form": 1, "id": 1, "quantity": 3}, {"form": 1, "id": 2, "quantity": 3}]
    assert deliver(tokyo, made["apply"], [json.dumps(each).encode() for each in earlier])
    assert deliver(
        tokyo, made["apply"], [b'{"form": 1, "id": 2, "deleted": true}', b'{"form": 2, "id": 3, "pieces": 5}']
    )
    with pytest.raises(ValueError, match="newer than the listener"):
        deliver(tokyo, made["apply"], [b'{"form": 3, "id": 1}'])
    with Session(tokyo) as session:
        assert orders(session) == [(1, 3), (3, 5)]


@pytest.mark.long
def test_a_snapshot_brings_the_rows_of_now_in_the_newer_form(made: dict[str, Any]):
    with pair("paris", "tokyo", initial_sync="snapshot") as (paris, tokyo):
        for each in (paris, tokyo):
            with_orders(each.engine)
        with tokyo.engine.begin() as connection:
            connection.execute(text("INSERT INTO orders VALUES (9, 9)"))
        tokyo.subscribe(made["apply"])
        with made["client"].start_snapshot_transmitter(paris.engine, made["provider"]):
            with paris.session() as session, session.begin():
                made["save"](session, 1, 3, ["tokyo"])
            paris.settle(100)
        with tokyo.session() as session:
            assert orders(session) == [(1, 3)]
