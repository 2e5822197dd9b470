"""Entries belong to the application's transaction, on connections of every kind of both databases."""

import json

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client import LRMessageWithDestinations, PositionToken, RoutingQueueSenderClient
from tests.lr_client.connections.applications import POSTGRESQL, SQLITE, Application, Open, run

client = RoutingQueueSenderClient("policy")
TABLES = {"sqlite": "lrq_log_entries_0", "postgresql": "lrq_log_entries"}
KINDS = [("sqlite", name) for name in SQLITE] + [("postgresql", name) for name in POSTGRESQL]
pytestmark = pytest.mark.parametrize(("dialect", "kind"), KINDS, indirect=["dialect"])


@pytest.fixture
def opening(dialect: str, kind: str, settings_of_django: None) -> Open:
    """Give the opener of the application of this kind."""
    return {"sqlite": SQLITE, "postgresql": POSTGRESQL}[dialect][kind]


def stored(site: Engine) -> list[tuple[bytes, str | None, str | None, object]]:
    """Return payload, item key, partition key and headers of all entries, oldest first."""
    statement = f"SELECT payload, item_key, partition_key, headers FROM {TABLES[site.dialect.name]} ORDER BY id"
    with site.connect() as connection:
        rows = connection.execute(text(statement)).all()
    return [(bytes(row[0]), row[1], row[2], json.loads(row[3] or "null")) for row in rows]


def payloads(site: Engine) -> list[bytes]:
    return [row[0] for row in stored(site)]


def test_committed_entries_are_written_once_in_order_and_rolled_back_ones_are_gone(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        async with app.transaction():
            await app.transmit(b"one")
            await app.transmit(b"two")
        async with app.transaction(fails=True):
            await app.transmit(b"never")
            await app.transmit_all(LRMessageWithDestinations(b"never", ["tokyo"]))
        async with app.transaction():
            await app.transmit_all(
                *(LRMessageWithDestinations(b"%d" % number, ["tokyo", "lima"][: 1 + number % 2]) for number in range(9))
            )

    run(opening, site, application)
    assert payloads(site) == [b"one", b"two", *(b"%d" % number for number in range(9))]


def test_the_entries_of_a_savepoint_vanish_with_its_rollback(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        async with app.transaction():
            async with app.savepoint(fails=True):
                await app.transmit(b"first in a savepoint")
            await app.transmit(b"one")
            async with app.savepoint():
                await app.transmit(b"two")
                async with app.savepoint(fails=True):
                    await app.transmit(b"inner")
            async with app.savepoint(fails=True):
                await app.transmit_all(
                    LRMessageWithDestinations(b"three", ["tokyo"]), LRMessageWithDestinations(b"four", ["lima"])
                )
            await app.transmit(b"five")

    run(opening, site, application)
    assert payloads(site) == [b"one", b"two", b"five"]


def test_keys_headers_and_any_bytes_arrive_as_given(site: Engine, opening: Open) -> None:
    every_byte, headers = bytes(range(256)) * 300, {"trace": "a'b\"c\\ %s :p1 $1 ?", "é": "\u2603"}
    texts = "it's a %s \\ \u2603 key"
    several = [
        LRMessageWithDestinations(b"", ["tokyo"], item_key=texts),
        LRMessageWithDestinations(every_byte, ["lima", "tokyo", "lima"], partition_key=texts),
        LRMessageWithDestinations(b"\\x00", ["oslo"], headers=headers),
    ]

    async def application(app: Application) -> None:
        async with app.transaction():
            await app.transmit(every_byte, ("tokyo", "lima"), item_key=texts, partition_key="p", headers=headers)
            await app.transmit(b"")
            await app.transmit_all(*several)
            await app.transmit_all(several[2])

    run(opening, site, application)
    assert stored(site) == [
        (every_byte, texts, "p", headers),
        (b"", None, None, None),
        (b"", texts, None, None),
        (every_byte, None, texts, None),
        (b"\\x00", None, None, headers),
        (b"\\x00", None, None, headers),
    ]


def test_all_calls_of_a_transaction_return_a_token_of_their_place(site: Engine, opening: Open) -> None:
    tokens: list[PositionToken] = []

    async def application(app: Application) -> None:
        for _ in range(2):
            async with app.transaction():
                tokens.append(await app.transmit(b"x"))
                tokens.append(await app.transmit_all(*[LRMessageWithDestinations(b"x", ["tokyo"])] * 3))

    run(opening, site, application)
    with Session(site) as session, session.begin():
        tokens.append(client.transmit_log_entry_message(session, b"x", ["tokyo"]))
    assert {(token.site, token.client, token.branch, token.timeline) for token in tokens} == {
        ("paris", "policy", tokens[-1].branch, "")
    }
    numbers = [token.transaction for token in tokens]
    assert numbers == sorted(numbers)
    assert numbers[1] < numbers[2]
    assert numbers[3] < numbers[4]


def test_applications_of_several_kinds_write_to_one_log(site: Engine, opening: Open) -> None:
    def with_sqlalchemy(payload: bytes) -> None:
        with Session(site) as session, session.begin():
            client.transmit_log_entry_message(session, payload, ["tokyo"])

    async def application(app: Application) -> None:
        for number in range(3):
            with_sqlalchemy(b"session %d" % number)
            async with app.transaction():
                await app.transmit(b"this %d" % number)

    run(opening, site, application)
    assert sorted(payloads(site)) == [
        b"%s %d" % (which, number) for which in (b"session", b"this") for number in range(3)
    ]
