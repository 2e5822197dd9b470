"""Requests of two processes with one name of a producer: none is lost or doubled in silence."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from queues.destinations import destination_set
from queues.names import ClientName
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import NO_REQUEST, Last, ProducerKey, Production, RequestVerdict, Store, decide

KEY = ProducerKey(ClientName("meters"), "meter-17")
OLD, NEW = 77, 88
STORED, REPEATED, TAKEN, ASKED, GAP = (
    RequestVerdict.STORED,
    RequestVerdict.REPEATED,
    RequestVerdict.TAKEN,
    RequestVerdict.ASKED,
    RequestVerdict.GAP,
)


def request(sequence: int, process: int = 0, first: int = 0) -> Production:
    sets = destination_set(KEY.client, ["tokyo"])
    entry = NewEntry(b"%d of %d" % (sequence, process), sets, None, None, None)
    return Production(KEY, sequence, [entry] if sequence else [], process, first)


@pytest.mark.parametrize(
    ("last", "asked", "verdict"),
    [
        (NO_REQUEST, request(1, OLD, 1), STORED),
        (Last(5, "t", OLD, 1), request(6, OLD, 1), STORED),
        (Last(5, "t", OLD, 1), request(5, OLD, 1), REPEATED),
        (Last(5, "t", OLD, 1), request(7, OLD, 1), GAP),
        # The next process goes on after the last number that it was told.
        (Last(5, "t", OLD, 1), request(0, NEW), ASKED),
        (Last(5, "t", OLD, 1), request(6, NEW, 6), STORED),
        (Last(6, "t", NEW, 6), request(7, NEW, 6), STORED),
        (Last(7, "t", NEW, 6), request(6, NEW, 6), REPEATED),
        # A late request was stored first: the next process is told.
        (Last(6, "t", OLD, 1), request(6, NEW, 6), TAKEN),
        (Last(6, "t", OLD, 1), request(7, NEW, 6), TAKEN),
        (Last(6, "t", OLD, 1), request(0, NEW, 6), TAKEN),
        (Last(5, "t", OLD, 1), request(0, NEW, 6), ASKED),
        # A late request comes behind one of the next process.
        (Last(6, "t", NEW, 6), request(6, OLD, 1), TAKEN),
        (Last(6, "t", NEW, 6), request(7, OLD, 1), TAKEN),
        (Last(7, "t", NEW, 6), request(5, NEW, 6), TAKEN),
        # Producers that name no process keep to the numbers alone.
        (Last(6, "t", NEW, 6), request(7), STORED),
        (Last(6, "t", NEW, 6), request(6), REPEATED),
        (Last(6, "t"), request(7, NEW, 7), STORED),
        (Last(6, "t"), request(7, OLD, 1), TAKEN),
    ],
)
def test_a_number_belongs_to_the_process_that_stored_it(last: Last, asked: Production, verdict: RequestVerdict) -> None:
    assert decide(last, asked) is verdict


@pytest.fixture
def store(site: Engine) -> Iterator[Store]:
    opened = open_store(site)
    yield opened
    opened.close()


def payloads(site: Engine) -> list[bytes]:
    with site.connect() as connection:
        table = "lrq_log_entries_0" if site.dialect.name == "sqlite" else "lrq_log_entries"
        return [bytes(row.payload) for row in connection.execute(text(f"SELECT payload FROM {table} ORDER BY id"))]


def verdicts(store: Store, *requests: Production) -> list[RequestVerdict]:
    return [outcome.verdict for outcome in store.store(requests, 1)]


def test_a_late_request_of_an_ended_process_is_told_to_the_next_process(site: Engine, store: Store) -> None:
    assert verdicts(store, request(1, OLD, 1), request(0, NEW)) == [STORED, ASKED]
    assert verdicts(store, request(2, OLD, 1)) == [STORED], "late: the next process has asked already"
    assert verdicts(store, request(2, NEW, 2)) == [TAKEN]
    assert verdicts(store, request(3, NEW, 2)) == [TAKEN]
    assert payloads(site) == [b"1 of 77", b"2 of 77"]
    assert verdicts(store, request(0, NEW + 1), request(3, NEW + 1, 3)) == [ASKED, STORED]


@pytest.mark.parametrize("together", [True, False])
def test_late_requests_behind_one_of_the_next_process_are_refused(site: Engine, store: Store, together: bool) -> None:
    assert verdicts(store, request(1, OLD, 1)) == [STORED]
    assert verdicts(store, request(2, NEW, 2)) == [STORED]
    late = [request(2, OLD, 1), request(3, OLD, 1)]
    found = verdicts(store, *late) if together else [*verdicts(store, late[0]), *verdicts(store, late[1])]
    assert found == [TAKEN, TAKEN]
    assert verdicts(store, request(3, NEW, 2), request(2, NEW, 2)) == [STORED, REPEATED]
    assert payloads(site) == [b"1 of 77", b"2 of 88", b"3 of 88"]


class Row:
    """The row of a producer in memory, and the process that stored each number."""

    def __init__(self) -> None:
        self.last = NO_REQUEST
        self.stored: list[int] = []

    def take(self, asked: Production) -> RequestVerdict:
        verdict = decide(self.last, asked)
        if verdict is STORED:
            self.last = self.last.after(asked, "t")
            self.stored.append(asked.process)
        return verdict


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["ask", "next", "repeat", "late"])), max_size=40))
def test_an_answer_of_success_always_means_the_own_request(steps: Sequence[tuple[int, str]]) -> None:
    row = Row()
    # By process: its first number, and the numbers that it has sent.
    known: dict[int, tuple[int, list[int]]] = {}
    for process, step in steps:
        if process not in known:
            assert row.take(request(0, process)) is ASKED
            known[process] = (row.last.sequence + 1, [])
        first, sent = known[process]
        if step == "ask":
            row.take(request(0, process, first))
            continue
        if step == "next" or not sent:
            sent.append(sent[-1] + 1 if sent else first)
        for number in sent if step == "late" else sent[-1:]:
            if row.take(request(number, process, first)) in (STORED, REPEATED):
                assert row.stored[number - 1] == process
