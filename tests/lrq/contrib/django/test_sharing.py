"""A listener changes models in the transaction that removes the entries."""

import pytest
from sqlalchemy import text

from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.contrib.django.project import Project

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]

APPLY = """
def apply(session, source_id, entries):
    for entry in entries:
        Stock.objects.create(item=entry.opaque_payload.decode())
"""
THEN = "\n    "


def stock(office: Project) -> list[object]:
    return office.sql("SELECT item FROM shop_stock ORDER BY item")


def test_models_change_and_the_entries_are_gone(office: Project, north: Arrivals):
    north.tick([b"bread", b"salt"], [b"wine"])
    assert office.deliver(APPLY) == []
    assert (stock(office), north.left) == (["bread", "salt", "wine"], 0)


#: The end of a call, after its changes, and the error that the subscription reports.
REFUSALS = {
    "raise ValueError('no bread')": "error ValueError: no bread",
    "return False": "error ListenerError: process_updates_in_log_entry_sync returned False: ",
    "return transaction.atomic": "error ListenerError: apply returned function",
    "Stock.objects.create(item='bread')": "error IntegrityError: ",
    "transaction.commit()": "error TransactionManagementError: ",
    "transaction.set_rollback(True)": "error ListenerError: the listener left a failed atomic(savepoint=False)",
    "transaction.atomic(durable=True).__enter__()": "error RuntimeError: A durable atomic block cannot be nested",
    "connection.close()": "error ListenerError: the listener closed Django's connection",
    "connection.cursor().execute('ROLLBACK')": "error ListenerError: the listener ended the transaction",
    # The constraint is deferred, so only the commit finds that there is no such row.
    "StockChange.objects.create(stock_id='none', order=1, quantity=1, placed_at='2026-01-01T00:00Z')": "error ",
    "transaction.on_commit(lambda: tell('hook'))" + THEN + "return False": "error ListenerError",
}


def test_a_refused_call_changes_no_model_removes_no_entry_and_runs_no_hook(office: Project, north: Arrivals):
    north.tick([b"bread"])
    lines = office.deliver(*(APPLY + THEN + end for end in REFUSALS))
    assert len(lines) == len(REFUSALS)
    assert [line for line, words in zip(lines, REFUSALS.values(), strict=True) if not line.startswith(words)] == []
    assert (stock(office), north.left) == ([], 1)


def test_a_savepoint_of_the_session_that_the_call_leaves_open_is_kept(office: Project, north: Arrivals):
    north.tick([b"bread"])
    assert office.deliver(APPLY + THEN + "session.begin_nested()" + THEN + "Stock.objects.create(item='salt')") == []
    assert (stock(office), north.left) == (["bread", "salt"], 0)


def test_a_block_that_fails_inside_the_call_undoes_only_its_own_changes(office: Project, north: Arrivals):
    north.tick([b"bread"])
    code = """
    try:
        with transaction.atomic():
            Stock.objects.create(item="wine")
            with transaction.atomic():
                Stock.objects.create(item="bread")
    except Exception as error:
        tell(type(error).__name__)
    with transaction.atomic():
        Stock.objects.create(item="salt")
"""
    assert office.deliver(APPLY + code) == ["IntegrityError"]
    assert (stock(office), north.left) == (["bread", "salt"], 0)


def test_hooks_run_after_the_commit_on_the_usual_connection(office: Project, north: Arrivals):
    north.tick([b"bread"])
    code = """
    lent = connection.connection
    def hook():
        tell(connection.connection is lent, Stock.objects.count(), connection.in_atomic_block)
    transaction.on_commit(hook)
    try:
        with transaction.atomic():
            transaction.on_commit(lambda: tell("of a block that was rolled back"))
            raise KeyError
    except KeyError:
        tell("applied")
"""
    assert office.deliver(APPLY + code) == ["applied", "False 1 False"]


def test_a_failing_hook_is_logged_and_the_next_one_runs(office: Project, north: Arrivals):
    north.tick([b"bread"])
    code = """
    transaction.on_commit(lambda: 1 / 0)
    transaction.on_commit(lambda: tell("second"))
import logging
logging.getLogger("lrq.django").addHandler(logging.StreamHandler(sys.stdout))
"""
    first, *others = office.deliver(APPLY + code)
    assert first.startswith("event='a hook of transaction.on_commit failed' hook='apply.<locals>.<lambda>'")
    assert "ZeroDivisionError" in first
    assert "division by zero" not in first, "the message of an application's error may hold a payload"
    assert others[-1] == "second"
    assert (stock(office), north.left) == (["bread"], 0)


def test_the_connection_has_the_settings_of_django(office: Project, north: Arrivals):
    north.tick([b"bread"])
    code = """
    import datetime, django.db
    django.db.close_old_connections()
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    bread = Stock.objects.get()
    for number in range(1, 251):
        StockChange.objects.create(stock=bread, order=number, quantity=1, branch="b", placed_at=moment)
    tell(StockChange.objects.first().placed_at == moment, StockChange.objects.filter(placed_at__hour=3).count())
    tell(StockChange.objects.filter(order__regex="^2.$").count(), sum(1 for _ in StockChange.objects.iterator(100)))
"""
    assert office.deliver(APPLY + code) == ["True 250", "10 250"]


def test_a_session_and_the_models_share_one_transaction(office: Project, north: Arrivals):
    north.tick([b"bread"])
    code = """
from sqlalchemy import text
class Both(lrq.RoutingQueueListener):
    client_name = "orders"
    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        Stock.objects.create(item="salt")
        tell(session.execute(text("SELECT item FROM shop_stock")).scalars().all())
        session.execute(text("INSERT INTO shop_stock (item, quantity) VALUES ('wine', 1)"))
        tell(Stock.objects.get(item="wine").quantity)
        return True
    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync
subject = Both()
"""
    assert office.deliver(code) == ["['salt']", "1"]
    assert (stock(office), north.left) == (["salt", "wine"], 0)


def test_callbacks_of_snapshots_and_rollbacks_change_models(office: Project, north: Arrivals):
    code = """
class Undo(lrq.RoutingQueueListener):
    client_name = "orders"
    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        Stock.objects.bulk_create(Stock(item=entry.opaque_payload.decode()) for entry in entries)
        return True
    process_updates_in_log_entry_sync = process_updates_in_snapshot_sync
    def on_snapshot_sync_start(self, session, source_id):
        Stock.objects.all().delete()
    def on_snapshot_sync_complete(self, session, source_id):
        Stock.objects.create(item="complete")
    def on_rollback(self, session, source_id, position):
        Stock.objects.create(item=f"back to {position.seq}")
subject = Undo()
"""
    office.sql("INSERT INTO shop_stock (item, quantity) VALUES ('old', 1)")
    north.snapshot("s1", [b"bread"])
    north.tick([b"salt"])
    assert office.deliver(code) == []
    assert stock(office) == ["bread", "complete", "salt"]
    north.go_back(0)
    north.tick([b"wine"])
    assert office.deliver(code) == []
    assert stock(office) == ["back to 0", "bread", "complete", "salt", "wine"]


def test_a_lost_connection_is_no_fault_of_the_listener(office: Project, north: Arrivals, dialect: str):
    if dialect == "sqlite":
        pytest.skip("a file has no server that ends connections")
    north.tick([b"bread"])
    code = """
    connection.cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")
"""
    (line,) = office.deliver(APPLY + code)
    assert line.startswith("error StoreUnavailableError: the database cannot be used just now")
    with office.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_consumer_failures")).scalar() == 0
    assert office.deliver(APPLY) == []
    assert (stock(office), north.left) == (["bread"], 0)
