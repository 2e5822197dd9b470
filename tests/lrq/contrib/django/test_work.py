"""`manage.py lrq_work` in real processes, which are killed between the change of models and the commit."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.contrib.django.conftest import NewProject
from tests.lrq.contrib.django.project import Project
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]
APPLY = "killing:apply"


def order(number: int, quantity: int = 2) -> bytes:
    message = {"order": number, "item": "bread", "quantity": quantity, "placed_at": "2026-01-01T00:00:00Z"}
    return json.dumps(message).encode()


def applied(office: Project) -> list[object]:
    return office.sql('SELECT "order" FROM shop_stockchange ORDER BY id')


def with_path(office: Project, **variables: str) -> Project:
    folder = str(Path(__file__).parent)
    path = f"{office.environment['PYTHONPATH']}:{folder}"
    office.environment |= {"PYTHONPATH": path, **variables}
    return office


@contextmanager
def worker(office: Project, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `lrq_work` during the block, which begins after the first line of output."""
    process = office.start("lrq_work", *words)
    try:
        assert process.stdout.readline() or process.communicate(timeout=30)[1] == ""
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("moment", "is_applied"), [("changed", False), ("removed", False), ("committed", True)])
def test_a_killed_worker_leaves_both_the_models_and_the_queue_or_neither_changed(
    office: Project, north: Arrivals, moment: str, is_applied: bool
):
    north.tick([order(1), order(2)])
    killed = with_path(office, SHOP_KILL=moment).start("lrq_work", APPLY)
    assert (killed.wait(240), killed.communicate()[0]) == (
        -signal.SIGKILL,
        "lrq_work listens to orders\n",
    )
    assert (applied(office), north.left) == (([1, 2], 0) if is_applied else ([], 2))
    north.tick([order(3)])
    with worker(with_path(office, SHOP_KILL=""), APPLY):
        eventually(lambda: north.left == 0)
    assert applied(office) == [1, 2, 3]
    assert office.sql("SELECT quantity FROM shop_stock") == [-6]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_worker_after_its_call(office: Project, north: Arrivals, number: int):
    with worker(office, "shop.listeners:apply") as process:
        north.tick([order(1)])
        eventually(lambda: north.left == 0)
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0
    assert applied(office) == [1]


def test_refused_entries_are_parked_on_request(office: Project, north: Arrivals):
    north.tick([b"no JSON"], [order(2)])
    with worker(with_path(office), "killing:park"):
        eventually(lambda: applied(office) == [2])
    assert office.sql("SELECT count(*) FROM lrq_parked_entries") == [1]


def test_a_second_worker_stands_by_and_takes_over(office: Project, north: Arrivals):
    north.tick([order(1)])
    with worker(office, "shop.listeners:apply") as first:
        eventually(lambda: north.left == 0)
        with worker(office, "shop.listeners:apply", "--metrics", "127.0.0.1:0"):
            first.kill()
            first.wait()
            north.tick([order(2)])
            eventually(lambda: north.left == 0)
    assert applied(office) == [1, 2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["shop.nothing:apply"], "CommandError: there is no module shop.nothing"),
        (["shop.orders:place"], "CommandError: shop.orders:place is no listener (the listener is the function place: "),
        (
            ["killing:later"],
            "CommandError: killing:later is no listener (later is `async def`, and nothing would",
        ),
        (["shop.models:Order"], "CommandError: shop.models:Order is a class: name an object"),
        (["shop.listeners:apply", "--using", "other"], "CommandError: DATABASES has no alias 'other'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(new_project: NewProject, dialect: str, words: list[str], sentence: str):
    if dialect == "postgresql":
        pytest.skip("the arguments are checked before a database is opened")
    done = with_path(new_project("office")).outcome("lrq_work", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1
