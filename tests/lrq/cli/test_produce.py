"""`lrq produce`: lines and files go to a server without a database here, and positions come out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery.rings import ring_of
from lrq.cli import produced_lines
from queues.wire import ingest_pb2 as pb
from tests.lr_client.producer.small_server import Refusal, SmallServer
from tests.lrq.cli.command import Command, Done, lrq_process, spawn, unheard


@pytest.fixture
def server() -> Iterator[SmallServer]:
    started = SmallServer()
    yield started
    started.stop()


@pytest.fixture
def produce(lrq: Command, server: SmallServer) -> Any:
    """Give a function that runs `lrq produce` for the client meters, to tokyo."""
    return lambda *arguments: lrq(
        "produce", "--endpoint", server.endpoint, "--client", "meters", "--to", "tokyo", *arguments
    )


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntwo\r\n\nfour")
    return file


def stored(server: SmallServer, producer: str = "meter-17") -> list[bytes]:
    return server.log.payloads("meters", producer)


def test_each_line_is_a_transaction_and_its_position_is_printed(produce, server: SmallServer, lines: Path):
    done = produce("--producer", "meter-17", str(lines))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [f"{number} b/{number}" for number in range(1, 5)]
    assert stored(server) == [b"one", b"two", b"", b"four"]


def test_json_has_one_object_for_each_request(produce, lines: Path):
    done = produce("--producer", "meter-17", "--group", "3", "--json", str(lines))
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"sequence": number, "position": {"branch": "b", "seq": number}, "token": f"paris/meters/b/{number}"}
        for number in (1, 2)
    ]


def test_groups_and_whole_files_are_transactions(produce, server: SmallServer, lines: Path):
    assert produce("--producer", "meter-17", "--group", "3", str(lines)).code == 0
    assert produce("--producer", "meter-17", "--whole", str(lines), str(lines)).code == 0
    sizes = [len(request.messages) for request in server.log.stored["meters", "meter-17"]]
    assert (sizes, stored(server)[-1]) == ([3, 1, 1, 1], b"one\ntwo\r\n\nfour")


def test_keys_headers_and_destinations_are_sent(produce, server: SmallServer, lines: Path):
    options = ("--item-key", "i", "--partition-key", "p", "--header", "a=b", "--to", "lima")
    assert produce("--producer", "meter-17", *options, "--whole", str(lines)).code == 0
    (message,) = server.log.stored["meters", "meter-17"][0].messages
    assert (list(message.destinations), dict(message.headers)) == (["lima", "tokyo"], {"a": "b"})
    assert (message.item_key, message.partition_key) == ("i", "p")


@pytest.mark.processes
def test_a_closed_stdout_does_not_count_as_success(server: SmallServer, lines: Path):
    command = ["produce", "-e", server.endpoint, "--client", "meters", "-t", "tokyo", "-p", "meter-17", str(lines)]
    done = unheard(*command)
    assert done.returncode == 3
    assert b"message 1 is stored, and later ones may be stored or not" in done.stderr
    with open("/dev/full", "wb") as full:
        process = spawn(*command, "-p", "meter-18", stdout=full, stderr=-1)
        _, words = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"message 1 is stored, and later ones may be stored or not" in words


@pytest.mark.processes
@pytest.mark.parametrize("argument", [["-"], []])
def test_lines_may_come_from_the_standard_input(server: SmallServer, argument: list[str]):
    command = ["produce", "-e", server.endpoint, "--client", "meters", "-t", "tokyo", "-p", "meter-17", *argument]
    done = lrq_process(*command, stdin=b"1\n2\n")
    assert (done.returncode, done.stdout) == (0, b"1 b/1\n2 b/2\n"), done.stderr
    assert stored(server) == [b"1", b"2"]


def test_a_repeated_run_sends_no_line_again(produce, server: SmallServer, lines: Path):
    again = ("--producer", "lines", "--from-sequence", "1", str(lines))
    server.faults.extend([None, None, Refusal.INVALID])
    failed = produce(*again)
    assert (failed.code, failed.out) == (2, "1 b/1\n2 b/2\n")
    assert "nothing was stored: refused as INVALID" in failed.error
    done = produce(*again)
    assert (done.code, done.out) == (0, "3 b/3\n4 b/4\n")
    assert done.warnings == ["requests up to number 2 were stored before"]
    assert stored(server, "lines") == [b"one", b"two", b"", b"four"]
    assert produce(*again).out == ""


def test_a_first_number_above_the_next_one_is_an_error(produce, server: SmallServer, lines: Path):
    done = produce("--producer", "lines", "--from-sequence", "3", str(lines))
    assert (done.code, done.out) == (2, "")
    assert "begin with --from-sequence 1 or lower" in done.error
    assert stored(server, "lines") == []


def test_runs_without_a_name_never_share_numbers(produce, server: SmallServer, lines: Path):
    assert produce(str(lines)).code == produce(str(lines)).code == 0
    names = [producer for _, producer in server.log.stored]
    assert len({*names}) == 2
    assert all(name.startswith("lrq-produce-") for name in names)
    assert "name the producer" in produce("--from-sequence", "1", str(lines)).error


def test_an_unanswered_request_ends_with_exit_code_3(produce, server: SmallServer, lines: Path):
    server.always = "cut"
    done = produce("--producer", "meter-17", "--timeout", "0.3", str(lines))
    assert (done.code, done.out) == (3, "")
    assert "request 1 of producer meter-17 may be stored or not" in done.error


def test_a_site_that_cannot_store_in_time_is_told_with_its_reason(produce, server: SmallServer, lines: Path):
    server.always = Refusal.TRANSIENT
    done = produce("--producer", "meter-17", "--timeout", "0.5", str(lines))
    assert (done.code, done.out) == (1, "")
    assert done.error == "nothing was stored in time, send it again: refused as TRANSIENT"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--endpoint", "tcp://127.0.0.1:1", "--timeout", "0.2"], 1, "nothing was stored in time"),
        (["--endpoint", "nonsense"], 1, "is not an endpoint"),
        (["--endpoint", "tls://127.0.0.1:1"], 1, "needs a certificate"),
        ([], 1, "no server is named: give --endpoint"),
        (["--endpoint", "tcp://127.0.0.1:1", "--to", "tokyo,lima"], 2, "repeat --to for each site"),
        (["--endpoint", "tcp://127.0.0.1:1", "--producer", "a b"], 2, "not a valid producer name"),
    ],
)
def test_errors_are_one_line(lrq: Command, lines: Path, arguments: list[str], code: int, words: str):
    done = lrq("produce", "--client", "meters", "--to", "tokyo", *arguments, str(lines))
    assert (done.code, done.out) == (code, "")
    assert words in done.error


def test_of_several_rings_the_one_of_the_key_gets_the_lines(lrq: Command, lines: Path):
    servers = [SmallServer(), SmallServer()]
    named = [word for number, each in enumerate(servers) for word in ("--ring", f"paris-{number}={each.endpoint}")]
    for key in ("meter-1", "meter-2", "meter-3", "meter-4"):
        options = ("--client", "meters", "--to", "tokyo", "--partition-key", key, "--producer", key)
        assert lrq("produce", *named, *options, str(lines)).code == 0
        assert [len(stored(each, key)) for each in servers] == [4 * (ring_of(key, 2) == number) for number in (0, 1)]
    for each in servers:
        each.stop()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--ring", "paris-0=tcp://h:1", "--endpoint", "tcp://h:1"], 2, "give one of the two options"),
        (["--ring", "paris-0"], 1, "each --ring is one site and its endpoints"),
        (["--ring", "a=tcp://h:1", "--ring", "a=tcp://h:2"], 1, "each --ring is one site and its endpoints"),
        (["--ring", "paris-0=tcp://h:1", "--ring", "lima-1=tcp://h:2"], 1, "have no common name with numbers"),
        (["--ring", "paris-0=tcp://h:1"], 2, "the ring is chosen by the partition key"),
    ],
)
def test_mistakes_in_rings_are_one_line(lrq: Command, lines: Path, options: list[str], code: int, words: str):
    key = [] if "chosen" in words else ["--partition-key", "k"]
    done = lrq("produce", "--client", "meters", "--to", "tokyo", *options, *key, str(lines))
    assert (done.code, done.out) == (code, "")
    assert words in done.error


def test_a_missing_file_is_an_error_after_the_lines_before_it(produce, server: SmallServer, lines: Path):
    done: Done = produce("--producer", "meter-17", str(lines), "missing")
    assert done.code == 1
    assert done.error == "missing: No such file or directory"
    assert stored(server) == [b"one", b"two", b"", b"four"]


def test_a_line_above_the_limit_is_named_after_the_lines_before_it(
    produce, server: SmallServer, lines: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(produced_lines, "MAX_PAYLOAD_BYTES", 3)
    done = produce("--producer", "meter-17", str(lines))
    assert done.code == 2
    assert f"line 4 of {lines} has more bytes than a payload may have (3): split it" in done.error
    assert stored(server) == [b"one", b"two", b""]
    assert f"{lines} has more bytes" in produce("--whole", str(lines)).error


def test_the_endpoints_may_come_from_the_site_s_file(lrq: Command, server: SmallServer, lines: Path, elsewhere: Path):
    (elsewhere / "lrq.toml").write_text(f'listen = ["tcp://127.0.0.1:1", "{server.endpoint}"]\n')
    assert lrq("produce", "--client", "meters", "--to", "tokyo", "-p", "meter-17", str(lines)).code == 0
    assert stored(server) == [b"one", b"two", b"", b"four"]


def test_all_kinds_of_refusals_have_a_name():
    from lr_client.producer.answers import DeclineKind

    assert {*pb.ProduceRefusal.Kind.keys()} == {kind.name for kind in DeclineKind}


def test_a_wait_may_be_infinite(produce, server: SmallServer, lines: Path):
    done = produce("--producer", "meter-17", "--timeout", "inf", str(lines))
    assert (done.code, done.err) == (0, "")
    assert len(stored(server)) == len(done.out.splitlines()) > 1


@pytest.mark.processes
def test_an_answer_is_printed_while_no_further_line_comes(server: SmallServer):
    command = ["produce", "-e", server.endpoint, "--client", "meters", "-t", "tokyo", "-p", "meter-17"]
    process = spawn(*command, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\ntwo\nhalf of ")
    process.stdin.flush()
    # No test for a time: without the line, the read never ends.
    assert [process.stdout.readline() for _ in range(2)] == [b"1 b/1\n", b"2 b/2\n"]
    rest, words = process.communicate(b"three\nfour", timeout=60)
    assert (process.returncode, rest) == (0, b"3 b/3\n4 b/4\n"), words
    assert stored(server) == [b"one", b"two", b"half of three", b"four"]
