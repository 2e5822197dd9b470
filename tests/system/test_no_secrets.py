"""No output of lrq has a password, a private key or a payload.

Two sites work in real processes over TLS, with the most talkative log. A listener refuses entries with messages that
hold payloads. Producers are refused, one peer is wrong, and another is gone. PostgreSQL goes away for a moment.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from discovery.status import read_status
from lr_client import RoutingQueueSenderClient
from queues.receive.blocked import blocked
from queues.receive.parked import parked
from queues.states import SessionState
from queues.wire import ingest_pb2 as pb
from tests.lrq.cli.command import Command
from tests.system.leaks import Secret, leaks
from tests.system.raw_producer import RawProducer, message, request
from tests.system.swept_application import HEADER, ITEM_KEY, PAYLOAD, PROVIDED
from tests.system.swept_pages import act, every_page
from tests.system.swept_world import PASSWORD, SweptWorld, databases
from tests.waiting import eventually

httpx = pytest.importorskip("httpx")
grpc = pytest.importorskip("grpc")

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(300)]

_APPLICATION = "tests.system.swept_application"
_PAYLOADS = [Secret("payload", PAYLOAD), Secret("payload of a snapshot", PROVIDED)]
_BESIDE = [Secret("header", HEADER), Secret("item key", ITEM_KEY)]


@pytest.fixture
def swept(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[SweptWorld]:
    # Tables fold no cell, so that a text stays in one piece.
    monkeypatch.setenv("COLUMNS", "2000")
    with ExitStack() as stack:
        made = SweptWorld(tmp_path, stack.enter_context(databases(dialect, tmp_path)), stack, Command(capsys))
        yield made
        print(made.logs())


def test_no_output_has_a_secret_or_a_payload(swept: SweptWorld, dialect: str) -> None:
    addresses, metrics = begin(swept)
    transmit(swept)
    produce(swept, addresses["paris"])
    tokyo = swept.engine("tokyo")
    eventually(lambda: parked(tokyo) and blocked(tokyo))
    eventually(lambda: "on_error raised" in swept.log("worker"))
    retried(swept, addresses["console"])
    look(swept, addresses["console"], metrics)
    with swept.databases.gone():
        if dialect == "postgresql":
            eventually(lambda: swept.page(metrics["paris"], "/readyz").status_code == 503)
            swept.run("status", "--config", "paris.toml")
    eventually(lambda: swept.page(metrics["paris"], "/readyz").status_code == 200)
    on_request = asked_for(swept, addresses["shown"])
    swept.stop()
    said = swept.outputs
    assert leaks(said, [*swept.secrets, *_PAYLOADS]) == []
    without_pages = {name: text for name, text in said.items() if not name.startswith("page ")}
    assert leaks(without_pages, _BESIDE) == []
    assert leaks(on_request, swept.secrets) == []
    assert [name for name in on_request if not leaks({name: on_request[name]}, _PAYLOADS)] == []
    assert_talkative(said, dialect)


def begin(swept: SweptWorld) -> tuple[dict[str, str], dict[str, str]]:
    """Start every kind of process; return the endpoint or the URL of each, and the addresses of metrics."""
    served = ("serve", "--init", "--json")
    swept.configure("tokyo", initial_sync="log")
    tokyo = json.loads(swept.start("tokyo", *served, "--config", "tokyo.toml", "--log-format", "json"))
    (sink,) = tokyo["endpoints"]
    peers = {"tokyo": sink, "oslo": sink, "lima": "tls://127.0.0.1:1"}
    rules = {"meter": {"clients": ["policy"]}}
    swept.configure("paris", ingest=True, peers=peers, producers=rules, acknowledged_retention_seconds=60.0)
    swept.run("init", "--config", "paris.toml")
    provider = ("provide", f"{_APPLICATION}:provide", "--client", "policy", "--config", "paris.toml")
    swept.start("provider", *provider)
    paris = json.loads(swept.start("paris", *served, "--config", "paris.toml"))
    worker = ("work", f"{_APPLICATION}:park", f"{_APPLICATION}:block", "--config", "tokyo.toml")
    at = re.search(r"http://(\S+)/metrics", swept.start("worker", *worker, "--metrics", "127.0.0.1:0"))
    assert at
    addresses = {"paris": paris["endpoints"][0], "tokyo": sink}
    sites = ("console", "--config", "paris.toml", "--config", "tokyo.toml", "--listen", "127.0.0.1:0")
    for name, options in {"console": ["--allow-actions", "--log-format", "json"], "shown": ["--show-payloads"]}.items():
        addresses[name] = swept.start(name, *sites, *options).removeprefix("console at ").rstrip("/")
    return addresses, {"paris": paris["metrics"], "tokyo": tokyo["metrics"], "worker": at[1]}


def transmit(swept: SweptWorld) -> None:
    """Transmit as an application, good entries and refused ones, and as an operator."""
    paris = swept.engine("paris")
    to = ["tokyo", "oslo", "lima"]
    for number, (client, words) in enumerate([("policy", "good"), ("policy", "poison"), ("audit", "good")]):
        beside = {"item_key": f"{ITEM_KEY} {number}", "headers": {"note": HEADER}}
        with Session(paris) as session, session.begin():
            sender = RoutingQueueSenderClient(client)
            sender.transmit_log_entry_message(session, f"{PAYLOAD} {words}".encode(), to, **beside)
        # The session begins with a snapshot, and only later entries come as entries of the log.
        eventually(lambda: in_log(paris))
    sender = RoutingQueueSenderClient("policy", max_payload_bytes=100)
    for payload, given in (
        (PAYLOAD.encode() * 50, {}),
        (PAYLOAD, {}),
        (PAYLOAD.encode(), {"item_key": ""}),
        (PAYLOAD.encode(), {"headers": {"": HEADER}}),
    ):
        with Session(paris) as session:
            swept.refused(
                lambda session=session, payload=payload, given=given: sender.transmit_log_entry_message(
                    session, payload, to, **given
                )
            )
    sent = ("send", "--config", "paris.toml", "--client", "policy", "--to", "tokyo", "--header", f"note={HEADER}")
    swept.run(*sent, "--item-key", ITEM_KEY, "--json", f"{PAYLOAD} sent")
    swept.run(*sent, stdin=PAYLOAD.encode() * 1_000)


def in_log(paris: Engine) -> bool:
    """Whether the session of `policy` from paris to tokyo sends the log."""
    states = {(each.client, each.destination): each.state for each in read_status(paris).sessions}
    return states.get(("policy", "tokyo")) is SessionState.LOG_ENTRY_SYNC


def produce(swept: SweptWorld, endpoint: str) -> None:
    """Send requests as a producer with a certificate: good ones, and one of each kind that is refused."""
    folder = swept.certificate("meter")
    files = [str(folder / name) for name in ("site.pem", "site.key", "authority.pem")]
    tls = [each for pair in zip(("certificate", "key", "authority"), files, strict=True) for each in pair]
    options = [f"--tls-{each}" if number % 2 == 0 else each for number, each in enumerate(tls)]
    lines = f"{PAYLOAD} 1\n{PAYLOAD} 2\n".encode()
    known = ("produce", "--endpoint", endpoint, "--client", "policy", "--to", "tokyo", *options, "--item-key", ITEM_KEY)
    assert '"sequence"' in swept.run(*known, "--producer", "meter", "--json", stdin=lines)
    swept.run(*known, "--producer", "another", stdin=lines)
    swept.run(*known, "--producer", "meter", "--timeout", "20", stdin=PAYLOAD.encode() * 1_000)
    certificate, key, authority = (Path(each).read_bytes() for each in files)
    with RawProducer(endpoint, grpc.ssl_channel_credentials(authority, key, certificate)) as producer:
        named = pb.ProduceRequest(
            client="policy", producer="meter", sequence=3,
            messages=[message(PAYLOAD.encode(), "", headers={"": HEADER}, item_key=ITEM_KEY)],
        )  # fmt: skip
        good = PAYLOAD.encode()
        for wrong in (request(9, good), request(3, good, client="other"), request(3, good * 1_000), named):
            (reply,) = producer.send([wrong])
            assert reply.HasField("refusal")
            swept.outputs[f"refusal {reply.refusal.kind}"] = f"{reply}"


def retried(swept: SweptWorld, console: str) -> None:
    """Have the parked entry refused again, by the console, and order replays and snapshots."""
    with httpx.Client(base_url=console, timeout=30) as client:
        eventually(lambda: "Retry" in client.get("/parked?site=tokyo").text)
        answer = act(client, "/parked?site=tokyo", do="retry", site="tokyo", all="1")
    swept.outputs["page of an action"] = answer
    tokyo = swept.engine("tokyo")
    eventually(lambda: not parked(tokyo)[0].retrying)
    ordered = ("replay", "order", "policy", "paris")
    swept.run(*ordered, "--from", "1", "--without-undo", "--yes", "--timeout", "20", "--config", "tokyo.toml")
    swept.run("snapshot", "request", "tokyo", "--client", "policy", "--config", "paris.toml")
    # The snapshot replaces the parked entry, so another one is refused after it.
    eventually(lambda: not parked(tokyo))
    with Session(swept.engine("paris")) as session, session.begin():
        poison = f"{PAYLOAD} poison".encode()
        RoutingQueueSenderClient("policy").transmit_log_entry_message(session, poison, ["tokyo"], item_key=ITEM_KEY)
    eventually(lambda: parked(tokyo))


def look(swept: SweptWorld, console: str, metrics: dict[str, str]) -> None:
    """Look at both sites in every way that shows no payload."""
    for site in ("paris", "tokyo"):
        here = ("--config", f"{site}.toml")
        for command in (
            ["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"], ["top", "--once"], ["drain", "-t", "0"],
            ["snapshot", "list"], ["replay", "list"], ["link", "list"], ["peer", "list"], ["trim", "--dry-run"],
        ):  # fmt: skip
            swept.run(*command, *here)
        swept.run("status", "--database", swept.databases.wrong(site))
        swept.run("doctor", "--database", swept.databases.wrong(site), "--site", site)
        swept.run("serve", "--once", "--site", site, "--database", swept.databases.wrong(site))
    swept.run("status", "--database", f"postgresql+psycopg://shop:{PASSWORD}@no.such.host:port/paris")
    swept.run("doctor", "--database", f"postgresql+psycopg://shop:c@{PASSWORD}@no.such.host/paris", "--site", "paris")
    worker = ("work", f"{_APPLICATION}:block", "--once", "--timeout", "0", "--config", "tokyo.toml")
    swept.run(*worker, "--log-level", "debug")
    for name in metrics:
        for path in ("/metrics", "/healthz", "/readyz"):
            swept.page(metrics[name], path)
    with httpx.Client(base_url=console, timeout=30) as client:
        swept.outputs |= {f"page {path}": page for path, page in every_page(client).items()}


def asked_for(swept: SweptWorld, console: str) -> dict[str, str]:
    """Return the outputs that show payloads, or a listener's messages, because a person asks for them."""
    tokyo = swept.engine("tokyo")
    first = str(parked(tokyo)[0].id)
    commands = (
        ["park", "list"], ["park", "list", "--json"], ["park", "show", first], ["park", "show", first, "--json"],
        ["browse", "LRQ_Recv_audit_paris"], ["browse", "LRQ_Recv_audit_paris", "--json"],
    )  # fmt: skip
    shown = {"lrq " + " ".join(each): swept.silently(*each, "--config", "tokyo.toml") for each in commands}
    with httpx.Client(base_url=console, timeout=30) as client:
        pages = every_page(client)
    shows = [name for name in pages if name.startswith(("/entry?", "/parked/one?")) and "queue=x" not in name]
    assert shows
    # Every page may show a payload here, and none shows a password.
    return shown | {"pages": "\n".join(pages.values())} | {name: pages[name] for name in shows}


def assert_talkative(said: dict[str, str], dialect: str) -> None:
    """Check that each output tells its events, because silence proves nothing."""
    wanted = {
        "worker, log": ["delivery failed", "on_error raised", "swept_application.py, line"],
        "paris, log": ["lima", "oslo", "debug"],
        "tokyo, log": ["frame refused"],
        "lrq status --config tokyo.toml": ["is blocked", "OperationalError" if dialect == "sqlite" else "InvalidText"],
        "page /": ["policy", "audit"],
    }
    for name, words in wanted.items():
        assert [word for word in words if word not in said[name]] == [], said[name]
    assert {name for name in said if not said[name] and "stdout" not in name} <= {"shown, log"}
