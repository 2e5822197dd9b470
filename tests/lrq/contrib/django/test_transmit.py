"""`transmit` writes in Django's transaction."""

import json

import pytest
from sqlalchemy import Engine

from queues.browse.api import browse
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.contrib.django.conftest import NewProject
from tests.lrq.contrib.django.project import Project

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]

USE = """
from django.db import connection, connections, transaction
from lrq.contrib.django import transmit
from queues.errors import LrqError
from shop.models import Order

def send(payload, **options):
    Order.objects.create(item=payload.decode(), quantity=1)
    return transmit("orders", payload, ["tokyo", "lima"], **options)

class Undo(Exception): ...
"""


@pytest.fixture
def paris(new_project: NewProject) -> Project:
    return new_project("paris")


def sent(project: Project) -> list[bytes]:
    return [entry.payload for entry in browse(project.engine, "LRQ_Send_LogEntries").entries]


def orders(project: Project) -> list[object]:
    return project.sql("SELECT item FROM shop_order ORDER BY id")


def test_entries_live_and_vanish_with_the_blocks_around_them(paris: Project):
    code = """
with transaction.atomic():
    send(b"one")
    try:
        with transaction.atomic():
            send(b"undone with a savepoint")
            with transaction.atomic():
                send(b"so is this")
            raise Undo
    except Undo:
        send(b"two")
    with transaction.atomic():
        print(send(b"three", item_key="a", partition_key="b").site)
try:
    with transaction.atomic():
        send(b"undone with the transaction")
        raise Undo
except Undo:
    pass
with transaction.atomic():
    send(b"four")
"""
    assert paris.python(USE + code) == ["paris"]
    assert sent(paris) == [b"one", b"two", b"three", b"four"]
    assert orders(paris) == ["one", "two", "three", "four"]
    assert len(numbers(paris.engine)) == 2


def numbers(engine: Engine) -> set[int | None]:
    """Return the transactions of the entries."""
    return {entry.transaction for entry in browse(engine, "LRQ_Send_LogEntries").entries}


def test_a_call_outside_a_transaction_is_refused(paris: Project):
    code = """
for using in (None, "default"):
    try:
        transmit("orders", b"x", ["tokyo"], using=using)
    except LrqError as error:
        print(type(error).__name__, error)
"""
    sentence = "transmit is part of the transaction of your changes: call it inside `with transaction.atomic():`"
    assert paris.python(USE + code) == [f"NotInTransactionError {sentence}"] * 2
    assert sent(paris) == []


def test_a_call_in_a_broken_block_is_refused(paris: Project):
    code = """
with transaction.atomic():
    transaction.set_rollback(True)
    try:
        send(b"x")
    except transaction.TransactionManagementError as error:
        print("refused")
    try:
        transmit("orders", b"x", ["tokyo"])
    except transaction.TransactionManagementError as error:
        print("refused too")
"""
    assert paris.python(USE + code) == ["refused", "refused too"]
    assert sent(paris) == []


def test_a_wrong_argument_is_a_sentence_and_leaves_the_block_whole(paris: Project):
    code = """
with transaction.atomic():
    for payload, destinations in ((b"x", []), (b"x", ["not a site"]), ("text", ["tokyo"]), (b"x" * 2**25, ["tokyo"])):
        try:
            transmit("orders", payload, destinations)
        except LrqError as error:
            print(type(error).__name__)
    send(b"sound")
"""
    errors = ["DestinationsError", "InvalidNameError", "PayloadTypeError", "PayloadTooLargeError"]
    assert paris.python(USE + code) == errors
    assert sent(paris) == [b"sound"]


def test_headers_are_kept_with_the_entry(paris: Project):
    assert paris.python(USE + "with transaction.atomic():\n    send(b'x', headers={'trace': '7'})") == []
    (kept,) = paris.sql("SELECT headers FROM lrq_log_entries_0")
    assert json.loads(str(kept)) == {"trace": "7"}


def test_a_listener_transmits_in_the_transaction_of_its_entries(office: Project, north: Arrivals):
    north.tick([b"bread"])
    forward = """
def apply(session, source_id, entries):
    for entry in entries:
        Stock.objects.create(item=entry.opaque_payload.decode())
        transmit("stock", b"from " + source_id.encode(), ["tokyo"])
"""
    (line,) = office.deliver(forward + "    return False")
    assert line.startswith("error ListenerError")
    assert sent(office) == []
    assert office.deliver(forward) == []
    assert (sent(office), north.left) == ([b"from north"], 0)
