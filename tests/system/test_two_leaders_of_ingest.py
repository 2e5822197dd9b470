"""Two real servers of a site, and producers: the leading one is killed, or stopped until the other leads."""

import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from lr_client.producer import Producer
from tests.conftest import NewSite
from tests.faults.standing_still import standing_still
from tests.system.test_ingest_killed import serving, stored
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

EACH = 60


def leader(site: Engine) -> int:
    """Return the process id of the server that leads the log; 0 if there is none."""
    with site.connect() as connection:
        row = connection.execute(text("SELECT owner FROM lrq_leases WHERE name = 'server'")).first()
    return int(row.owner.rsplit(":", 4)[1]) if row and row.owner else 0


def living(site: Engine) -> int:
    with site.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM lrq_servers")).scalar_one())


def payloads(site: Engine, name: str) -> list[bytes]:
    """Return the stored payloads of one producer, in order."""
    found = [payload for transaction in stored(site) for payload in transaction]
    return [payload for payload in found if payload.startswith(name.encode())]


def expected(name: str, count: int) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(1, count + 1)]


def begin(producer: Producer, name: str, first: int) -> list:
    return [
        producer.submit([(f"{name} {number}".encode(), ["tokyo"])], timeout=60) for number in range(first, first + EACH)
    ]


def test_a_producer_goes_on_at_the_other_server_after_the_leading_one_was_killed(
    new_site: NewSite, tmp_path: Path
) -> None:
    site, sockets = new_site("paris"), [tmp_path / "s", tmp_path / "t"]
    with serving(site, sockets[0]) as one, serving(site, sockets[1]) as two:
        running: dict[int, subprocess.Popen[bytes]] = {one.pid: one, two.pid: two}
        eventually(lambda: leader(site) in running and living(site) == 2)
        with Producer(",".join(f"ipc://{each}" for each in sockets), client="policy", producer="meter") as producer:
            futures = begin(producer, "meter", 1)
            futures[EACH // 4].result(timeout=60)
            killed = leader(site)
            running.pop(killed).kill()
            futures += begin(producer, "meter", EACH + 1)
            assert [future.result(timeout=100).sequence for future in futures] == list(range(1, 2 * EACH + 1))
            assert leader(site) in running
        eventually(lambda: len(payloads(site, "meter")) >= 2 * EACH)
        assert payloads(site, "meter") == expected("meter", 2 * EACH)


def test_a_leading_server_that_stands_still_and_goes_on_stores_nothing_twice(new_site: NewSite, tmp_path: Path) -> None:
    site, sockets = new_site("paris"), [tmp_path / "s", tmp_path / "t"]
    url = site.url.render_as_string(hide_password=False)
    endpoints = ",".join(f"ipc://{each}" for each in sockets)
    with serving(site, sockets[0]) as one, serving(site, sockets[1]) as two:
        socket_of = {one.pid: sockets[0], two.pid: sockets[1]}
        eventually(lambda: leader(site) in socket_of and living(site) == 2)
        stopped = leader(site)
        (other,) = set(socket_of) - {stopped}
        with (
            Producer(endpoints, client="policy", producer="early") as early,
            Producer(f"ipc://{socket_of[other]}", client="policy", producer="late") as late,
        ):
            futures = begin(early, "early", 1)
            futures[EACH // 4].result(timeout=60)
            with standing_still(stopped, url):
                eventually(lambda: leader(site) == other)
                assert [future.result(timeout=60).sequence for future in begin(late, "late", 1)][-1] == EACH
            assert [future.result(timeout=60).sequence for future in futures] == list(range(1, EACH + 1))
        eventually(lambda: sum(map(len, stored(site))) >= 2 * EACH)
        assert payloads(site, "early") == expected("early", EACH)
        assert payloads(site, "late") == expected("late", EACH)
