"""An application that journals every entry and every rollback in its own table, and the check of such a journal."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, insert, select
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from queues.positions import Position
from tests.system.world import Recorder

#: Each row is one entry with its number and payload, or a rollback ("back") with its number.
journal = Table(
    "journal",
    MetaData(),
    Column("n", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("text", Text, nullable=False),
)


class Journal(Recorder):
    """Journals all calls in the transaction of each; without on_rollback it cannot undo."""

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        rows = [{"kind": "log", "seq": each.sequence, "text": each.opaque_payload.decode()} for each in entries]
        session.execute(insert(journal), rows)
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


class UndoingJournal(Journal):
    """Journals rollbacks too."""

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        session.execute(insert(journal).values(kind="back", seq=position.seq, text=""))


def rows(site: Engine) -> list[tuple[str, int, str]]:
    """Return the journal in its order."""
    with site.connect() as connection:
        found = connection.execute(select(journal.c.kind, journal.c.seq, journal.c.text).order_by(journal.c.n))
        return [(kind, seq, text) for kind, seq, text in found]


def runs(found: Sequence[tuple[str, int, str]]) -> list[list[tuple[int, str]]]:
    """Divide a journal where it goes back; within a run the numbers rise."""
    made: list[list[tuple[int, str]]] = [[]]
    for kind, seq, text in found:
        if kind == "back" or (made[-1] and seq <= made[-1][-1][0]):
            made.append([])
        if kind == "log":
            made[-1].append((seq, text))
    return made


def check(found: Sequence[tuple[str, int, str]], sent: Sequence[str], replays: int) -> None:
    """Check that a journal has every sent entry once, and again exactly those after each of *replays* rollbacks."""
    made = runs(found)
    assert len(made) == replays + 1, [(run[0], run[-1]) for run in made if run]
    state: list[tuple[int, str]] = []
    for run in made:
        assert run, "a replay brings entries"
        again = next((place for place, each in enumerate(state) if each[0] >= run[0][0]), len(state))
        # The same entries come again from there on, with the same numbers; a later replay may cut this one short.
        length = min(len(run), len(state) - again)
        assert run[:length] == state[again : again + length]
        state = state[:again] + run
        assert [seq for seq, _ in state] == sorted({seq for seq, _ in state})
    assert [text for _, text in state] == list(sent)


def send(site: Engine, *texts: str, key: str | None = None, to: str = "tokyo") -> None:
    """Commit *texts* in one transaction."""
    with Session(site) as session, session.begin():
        for text in texts:
            RoutingQueueSenderClient("policy").transmit_log_entry_message(
                session, text.encode(), [to], partition_key=key
            )


@contextmanager
def writing_on(site: Engine, sent: list[str]) -> Iterator[None]:
    """Commit entries from a thread until the end of the block; *sent* gets those that are committed."""
    ending = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            while not ending.wait(0.005):
                text = f"entry {len(sent)}"
                send(site, text)
                sent.append(text)
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    assert errors == []
