"""Roles of PostgreSQL with few rights, and the work of each part of an application."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import queues
from discovery.status import read_status
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient, subscribe, wait_applied
from tests.system.world import Messages, Recorder
from tests.waiting import eventually


@contextmanager
def new_role(owner: Engine) -> Iterator[str]:
    """Make a role that may log in and has no right of its own; its name needs quotes."""
    name = f'Role "{uuid.uuid4().hex[:8]}"'
    quoted = quote(name)
    with owner.begin() as connection:
        connection.execute(text(f"CREATE ROLE {quoted} LOGIN PASSWORD 'secret'"))
    try:
        yield name
    finally:
        with owner.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {quoted}"))
            connection.execute(text(f"DROP ROLE {quoted}"))


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def engine_of(owner: Engine, role: str, **options: Any) -> Iterator[Engine]:
    """Make an engine that logs in as *role*."""
    engine = queues.create_engine(owner.url.set(username=role, password="secret"), **options)
    try:
        yield engine
    finally:
        engine.dispose()


def send(engine: Engine, heard: Recorder, seconds: float = 30.0) -> None:
    """Do the work of a sender: transmit in every way, wait, request and provide snapshots for tokyo."""
    client = RoutingQueueSenderClient("policy")
    mark = uuid.uuid4().hex.encode()
    with closing(client.start_snapshot_transmitter(engine, Messages(lambda _: [mark, mark]))):
        with Session(engine) as session, session.begin():
            for _ in range(2):
                client.transmit_log_entry_message(session, mark, ["tokyo"])
            several = [
                LRMessageWithDestinations(mark, ["tokyo"]),
                LRMessageWithDestinations(mark, ["lima"], "key", "p"),
            ]
            client.transmit_log_entry_messages(session, several)
            with session.begin_nested():
                client.transmit_log_entry_messages(session, [LRMessageWithDestinations(mark, ["tokyo"])] * 2)
        with Session(engine) as session, session.begin():
            token = client.transmit_log_entry_message(session, mark, ["tokyo"])
            session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            client.transmit_log_entry_message(session, mark, ["tokyo"])
        client.wait_replicated(engine, token, ["tokyo"], timeout=seconds)
        with Session(engine) as session, session.begin():
            client.request_snapshot_sync(session, "tokyo")
        eventually(lambda: ("snapshot", mark) in heard.heard.get("paris", ()), timeout=seconds)
        done = len(heard.snapshot("paris"))
        with Session(engine) as session, session.begin():
            client.request_global_snapshot_sync(session)
        eventually(lambda: len(heard.snapshot("paris")) > done, timeout=seconds)


def receive(engine: Engine, transmit: Any, request: Any, seconds: float = 30.0) -> None:
    """Do the work of a subscriber: snapshots, the log, failures, parked entries, waits and the status."""
    recorder = Recorder()
    refused: list[bytes] = []
    mark, poison = uuid.uuid4().hex.encode(), b"poison" + uuid.uuid4().hex.encode()

    def obey(_session: Session, _source: str, entries: Sequence[Any]) -> bool:
        wrong = [entry.opaque_payload for entry in entries if entry.opaque_payload == poison]
        refused.extend(wrong)
        return not wrong

    recorder.obey = obey
    with closing(subscribe(engine, recorder, poll_interval=0.05, on_failure="park", max_tries=2)):
        transmit(poison)
        token = transmit(mark)
        wait_applied(engine, token, timeout=seconds)
        eventually(lambda: mark in recorder.log("paris"), timeout=seconds)
        request()
        eventually(lambda: recorder.snapshot("paris"), timeout=seconds)
    assert refused
    read_status(engine)
