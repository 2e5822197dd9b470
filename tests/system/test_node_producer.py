"""A producer in another language: a real Node process, which needs nothing but the protocol."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from lr_client.producer import Producer
from tests.certificates import issued
from tests.house.page_blocks import take
from tests.lr_client.producer.small_server import MemoryLog, Refusal, SmallServer
from tests.system.world import World

pytestmark = [pytest.mark.long, pytest.mark.processes]

PROGRAM = Path(__file__).parents[2] / "examples" / "producers" / "node" / "producer.js"

#: The command, and the part of a program, of the page beside the example.
(COMMAND,) = take(__name__, "examples/producers/node/README.md", "")
(PART,) = take(__name__, "examples/producers/node/README.md", "js")

Node = Callable[..., "subprocess.CompletedProcess[str]"]
Program = Callable[[str, str], "subprocess.Popen[str]"]


@pytest.fixture
def node() -> Node:
    """Give a function that runs the program with some lines."""
    found = shutil.which("node")
    if found is None:
        words = "Node is not installed, so no other language proves the protocol"
        pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)

    def run(
        endpoint: str, *lines: str, producer: str = "node-1", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [found, str(PROGRAM), endpoint, "policy", producer, "tokyo", "lima"],
            input="".join(f"{line}\n" for line in lines),
            env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def servers() -> Iterator[tuple[SmallServer, SmallServer]]:
    """Give two servers of one log."""
    log = MemoryLog()
    both = SmallServer(log), SmallServer(log)
    yield both
    for server in both:
        server.stop()


@pytest.fixture
def small(servers: tuple[SmallServer, SmallServer]) -> SmallServer:
    return servers[0]


def stored(world: World) -> list[bytes]:
    rows = world.execute("paris", "SELECT payload FROM lrq_log_entries_0 ORDER BY id")
    return [bytes(row.payload) for row in rows]


def test_a_node_program_sends_to_the_real_server_and_goes_on_after_a_restart(world: World, node: Node) -> None:
    endpoint = world.server("paris", ingest=True, producers={"node-*": {"clients": ["policy"]}}).endpoints[0]
    done = node(endpoint, "21.5", "büchse 🫖")
    assert (done.returncode, [line.split()[0] for line in done.stdout.splitlines()]) == (0, ["1", "2"]), done.stderr
    again = node(endpoint, "21.5", "büchse 🫖", "three", LRQ_FIRST="1")
    assert (again.returncode, [line.split()[0] for line in again.stdout.splitlines()]) == (0, ["3"]), again.stderr
    assert stored(world) == [b"21.5", "büchse 🫖".encode(), b"three"]
    with Producer(endpoint, client="policy", producer="node-1") as producer:
        assert producer.last_sequence() == 3


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_command_and_the_program_of_the_page_send(world: World, node: Node, tmp_path: Path) -> None:
    endpoint = world.server("paris", ingest=True, producers={"*": {}}).endpoints[0]
    command, part = (text.replace("tcp://127.0.0.1:7400", endpoint) for text in (COMMAND, PART))
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "part.js").write_text(f"(async () => {{\n{part}}})();\n")
    for line in (command, "node part.js"):
        words = ["bash", "-c", line]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert stored(world) == [b"21.5", b"21.7", b"21.5"]


def test_the_real_server_refuses_a_gap_and_a_stranger_of_a_node_program(world: World, node: Node) -> None:
    endpoint = world.server("paris", ingest=True, producers={"node-*": {}}).endpoints[0]
    gap = node(endpoint, "1", LRQ_FIRST="5")
    assert (gap.returncode, gap.stdout) == (1, "")
    assert gap.stderr.startswith("GAP: request 5 came after request 0")
    stranger = node(endpoint, "1", producer="stranger")
    assert (stranger.returncode, stranger.stderr.startswith("NOT_ALLOWED: ")) == (1, True), stranger.stderr
    assert stored(world) == []


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_node_program_shows_its_certificate(world: World, node: Node, tmp_path: Path) -> None:
    authority = trustme.CA()
    for name in ("site", "node"):
        (tmp_path / name).mkdir()
    site, mine = issued(authority, tmp_path / "site"), issued(authority, tmp_path / "node", common_name="node-1")
    server = world.server(
        "paris", ingest=True, producers={"*": {}}, listen=["tls://127.0.0.1:0"],
        tls_certificate=site.certificate, tls_key=site.key, tls_authority=site.authority,
    )  # fmt: skip
    files = {
        "TLS_CERTIFICATE": str(mine.certificate),
        "TLS_KEY": str(mine.key),
        "TLS_AUTHORITY": str(mine.authority),
    }
    done = node(server.endpoints[0], "1", **files)
    assert done.returncode == 0, done.stderr
    assert node(server.endpoints[0], "1", producer="other", **files).returncode == 1
    assert stored(world) == [b"1"]


def test_a_node_program_repeats_after_cuts_and_refusals_for_now(small: SmallServer, node: Node) -> None:
    small.faults.extend(["cut", "mute", None, Refusal.FULL, "mute", "end", None])
    done = node(small.endpoint, "1", "2", "3")
    assert (done.returncode, done.stdout) == (0, "1 b/1\n2 b/2\n3 b/3\n"), done.stderr
    assert small.log.payloads("policy", "node-1") == [b"1", b"2", b"3"]
    assert list(small.log.stored["policy", "node-1"][0].messages[0].destinations) == ["tokyo", "lima"]


def test_a_node_program_goes_to_the_server_that_a_refusal_names(
    servers: tuple[SmallServer, SmallServer], node: Node
) -> None:
    other, leader = servers
    other.always, other.leader = Refusal.NOT_LEADER, leader.endpoint
    done = node(other.endpoint, "1", "2", "3")
    assert (done.returncode, done.stdout) == (0, "1 b/1\n2 b/2\n3 b/3\n"), done.stderr
    assert (other.streams, leader.streams) == (1, 1)


@pytest.mark.parametrize("leader", ["ipc:///tmp/x", "tls://127.0.0.1:1", "nonsense", "tcp://127.0.0.1:1"])
def test_a_node_program_comes_back_from_a_leader_that_is_useless(small: SmallServer, node: Node, leader: str) -> None:
    small.faults.extend([Refusal.NOT_LEADER, None])
    small.leader = leader
    done = node(small.endpoint, "1")
    assert (done.returncode, done.stdout) == (0, "1 b/1\n"), done.stderr


def test_two_processes_of_a_node_program_have_different_numbers(small: SmallServer, node: Node) -> None:
    for line in ("1", "2"):
        assert node(small.endpoint, line).returncode == 0
    one, two = small.log.stored["policy", "node-1"]
    assert 0 < one.process != two.process > 0
    assert (one.first_sequence, two.first_sequence) == (1, 2)


_BEGIN = """
const { Producer } = require(process.argv[1]);
const producer = new Producer(process.argv[2], { client: "policy", producer: "node-1" });
const told = async (payload, timeout = 20000) => {
  const sent = producer.send([{ payload, destinations: ["tokyo"] }], timeout);
  await sent.then(() => console.log("stored"), (error) => console.log(`${error.name}: ${error.message}`));
};
const line = () => new Promise((resolve) => process.stdin.once("data", resolve));
"""


@pytest.fixture
def program(node: Node) -> Iterator[Program]:
    """Give a function that starts a program with a producer; its calls print their outcomes."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, endpoint: str) -> "subprocess.Popen[str]":
        whole = f"{_BEGIN}(async () => {{ {code}; producer.close(); process.exit(0); }})();"
        command = [str(shutil.which("node")), "-e", whole, str(PROGRAM), endpoint]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def test_calls_of_a_node_program_at_the_same_time_are_all_stored(small: SmallServer, program: Program) -> None:
    out, _ = program("await Promise.all(['a', 'b', 'c'].map((each) => told(each)))", small.endpoint).communicate(
        timeout=60
    )
    assert out.splitlines() == ["stored"] * 3
    assert small.log.payloads("policy", "node-1") == [b"a", b"b", b"c"]


def test_wrong_messages_of_a_node_program_leave_its_producer_usable(small: SmallServer, program: Program) -> None:
    out, _ = program("await told(5); await told(Uint16Array.of(256)); await told('b')", small.endpoint).communicate(
        timeout=60
    )
    wrong = "TypeError: payload must be a string or a Buffer, not"
    assert out.splitlines() == [f"{wrong} number", f"{wrong} object", "stored"]
    assert small.log.payloads("policy", "node-1") == [b"b"]


def test_a_node_program_learns_that_a_late_request_is_kept_and_repeated_once(
    small: SmallServer, program: Program
) -> None:
    small.always = "mute"
    running = program("await told('a', 3000); await told('b', 1); await line(); await told('c')", small.endpoint)
    assert running.stdout is not None
    late, unsent = running.stdout.readline(), running.stdout.readline()
    assert late.startswith("Error: request 1 may be stored or not ("), late
    assert "it is kept, and the next call of send repeats it" in late
    assert unsent.startswith("Error: nothing of this call was sent, send it again; request 1 may be stored"), unsent
    small.always = None
    out, _ = running.communicate("go on\n", timeout=60)
    assert out == "stored\n"
    assert small.log.payloads("policy", "node-1") == [b"a", b"c"]


def test_a_node_program_without_a_server_learns_that_nothing_is_stored(program: Program) -> None:
    out, _ = program("await told('a', 500)", "tcp://127.0.0.1:9").communicate(timeout=60)
    assert out.startswith("Error: nothing was stored, send it again: "), out
    assert "ECONNREFUSED" in out


def test_a_refused_request_that_an_earlier_attempt_has_stored_counts_as_stored(
    small: SmallServer, program: Program
) -> None:
    small.faults.extend(["mute", Refusal.INVALID, None])
    out, _ = program("await told('a'); await told('b')", small.endpoint).communicate(timeout=60)
    assert out.splitlines() == ["stored", "stored"]
    assert small.log.payloads("policy", "node-1") == [b"a", b"b"]


def test_the_program_of_node_names_the_command_that_goes_on(small: SmallServer, node: Node) -> None:
    small.faults.extend([None, *["mute"] * 100])
    done = node(small.endpoint, "1", "2", "3", LRQ_SECONDS="2")
    assert (done.returncode, done.stdout) == (1, "1 b/1\n")
    assert done.stderr.startswith("line 2 may be stored or not: run the same command with LRQ_FIRST=1"), done.stderr
    small.faults.clear()
    again = node(small.endpoint, "1", "2", "3", LRQ_FIRST="1")
    assert (again.returncode, again.stdout) == (0, "3 b/3\n"), again.stderr
    assert small.log.payloads("policy", "node-1") == [b"1", b"2", b"3"]
