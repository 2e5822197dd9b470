"""The decisions of a producer, one by one: numbers, repeats, refusals and ends."""

import pytest

from lr_client.producer.answers import (
    PASSING,
    Accepted,
    Declined,
    DeclineKind,
    FailureCause,
    Produced,
    RequestFailure,
    RequestOutcome,
)
from lr_client.producer.machine import ALONE_BYTES, ProducerMachine, StreamPhase
from lr_client.producer.requests import QUESTION
from queues.positions import ORIGIN, Position

PLACE = Position("b", 7)
FOR_GOOD = sorted({*DeclineKind} - PASSING - {DeclineKind.GAP, DeclineKind.TAKEN}, key=lambda kind: kind.name)


def machine(last: int = 0, requests: int = 0, *, written: int = 0) -> ProducerMachine:
    """Return a machine with an open stream: its question is answered, and some requests (1, 2, ...) are written."""
    made = ProducerMachine(10, 1000)
    for key in range(1, requests + 1):
        made.requests.submit(key, b"%d" % key)
    reconnect(made, last)
    for _ in range(written):
        assert made.next_write()
    return made


def reconnect(made: ProducerMachine, last: int):
    made.connected()
    assert made.next_write() is QUESTION
    assert made.next_write() is None, "nothing is written before the answer"
    return made.answered(Accepted(last, PLACE, "token") if last else Accepted(0))


def numbers(made: ProducerMachine) -> list[tuple[int, int]]:
    """Return the key and the number of each request that is written now, in order."""
    written = iter(made.next_write, None)
    return [(each.key, each.number) for each in written]


def test_requests_get_numbers_after_the_last_stored_one_in_order():
    assert numbers(machine(4, 3)) == [(1, 5), (2, 6), (3, 7)]


def test_a_stored_request_ends_with_its_place_and_token():
    made = machine(0, 1, written=1)
    reaction = made.answered(Accepted(1, PLACE, "token"))
    assert reaction.outcomes == (RequestOutcome(1, Produced(1, PLACE, "token")),)
    assert (made.requests.count, made.last_stored, made.has_work()) == (0, 1, False)


def test_after_a_lost_stream_the_requests_that_are_not_stored_are_repeated_with_their_numbers():
    made = machine(0, 4, written=3)
    assert made.lost("cut").outcomes == ()
    reconnect(made, 1)
    assert numbers(made) == [(2, 2), (3, 3), (4, 4)]


def test_a_question_tells_the_place_of_the_last_stored_request_and_ends_those_before():
    made = machine(4, 4, written=3)
    made.lost("cut")
    reaction = reconnect(made, 6)
    assert reaction.outcomes == (
        RequestOutcome(1, Produced(5, ORIGIN, "")),
        RequestOutcome(2, Produced(6, PLACE, "token")),
    )
    assert not made.finished().is_failure
    reconnect(made, 6)
    assert numbers(made) == [(3, 7), (4, 8)]


def test_a_request_in_doubt_keeps_its_number_until_its_answer_and_later_ones_follow():
    made = machine(0, 1, written=1)
    made.lost("cut")
    outcome = made.expired(1)
    assert outcome == RequestOutcome(1, RequestFailure(FailureCause.UNKNOWN, 1, "cut"))
    assert not made.has_work()
    made.requests.submit(2, b"2")
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]
    assert made.expired(1) is None


def test_a_request_that_was_never_written_is_known_not_to_be_stored():
    made = machine(0, 1)
    made.lost("cut")
    assert made.expired(1) == RequestOutcome(1, RequestFailure(FailureCause.LATE, reason="cut"))
    assert made.requests.count == 0


def test_a_question_tells_also_that_a_request_is_stored_which_is_not_awaited_any_more():
    made = machine(0, 2, written=2)
    made.lost("cut")
    made.expired(1)
    assert reconnect(made, 1).outcomes == (RequestOutcome(1, Produced(1, PLACE, "token")),)
    assert numbers(made) == [(2, 2)]


def test_an_unknown_request_can_be_awaited_again():
    made = machine(0, 1, written=1)
    made.expired(1)
    assert made.requests.await_again() == [1]
    assert made.has_work()
    assert made.answered(Accepted(1)).outcomes == (RequestOutcome(1, Produced(1, ORIGIN, "")),)


@pytest.mark.parametrize("kind", sorted(PASSING, key=lambda kind: kind.name))
def test_a_refusal_for_now_ends_the_stream_and_all_requests_wait_again(kind: DeclineKind):
    made = machine(0, 3, written=2)
    reaction = made.answered(Declined(1, kind, "later", leader="tcp://b:1"))
    assert (reaction.outcomes, reaction.ends, reaction.is_failure, reaction.leader) == ((), True, True, "tcp://b:1")
    assert made.expired(2) == RequestOutcome(2, RequestFailure(FailureCause.LATE, 0, "later", kind))
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (3, 2)]


@pytest.mark.parametrize("kind", sorted(PASSING, key=lambda kind: kind.name))
def test_a_refusal_for_now_takes_no_number_from_a_request_in_doubt(kind: DeclineKind):
    made = machine(0, 2, written=1)
    made.lost("cut")
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]
    made.answered(Declined(1, kind, "later"))
    assert made.expired(1) == RequestOutcome(1, RequestFailure(FailureCause.UNKNOWN, 1, "later"))
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]


def test_requests_behind_a_refused_one_in_doubt_may_be_stored_and_keep_their_numbers():
    made = machine(0, 1, written=1)
    made.lost("cut")
    made.requests.submit(2, b"2")
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]
    # A late copy of request 1 has arrived, so request 2 is the next one.
    made.answered(Declined(1, DeclineKind.TRANSIENT, "locked"))
    assert made.expired(2) == RequestOutcome(2, RequestFailure(FailureCause.UNKNOWN, 2, "locked"))
    assert [each.key for each in reconnect(made, 2).outcomes] == [1, 2]
    assert made.end is None


def test_a_number_that_was_told_as_unknown_stays_and_so_do_the_ones_before():
    made = machine(0, 2, written=2)
    assert made.expired(2) is not None
    made.answered(Declined(1, DeclineKind.FULL))
    assert made.expired(1) == RequestOutcome(1, RequestFailure(FailureCause.UNKNOWN, 1, ""))
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("kind", FOR_GOOD)
def test_a_refusal_for_good_fails_the_request_and_drops_those_behind(kind: DeclineKind):
    made = machine(4, 3, written=2)
    reaction = made.answered(Declined(5, kind, "no"))
    first, *behind = reaction.outcomes
    assert first == RequestOutcome(1, RequestFailure(FailureCause.REFUSED, 5, "no", kind))
    assert [(each.key, each.result.cause) for each in behind] == [(2, FailureCause.DROPPED), (3, FailureCause.DROPPED)]
    assert (reaction.ends, reaction.is_failure, made.requests.count) == (True, False, 0)
    made.requests.submit(4, b"4")
    reconnect(made, 4)
    assert numbers(made) == [(4, 5)]


@pytest.mark.parametrize("kind", FOR_GOOD)
def test_a_refused_question_fails_all_requests_and_those_in_doubt_stay_unknown(kind: DeclineKind):
    made = machine(0, 1, written=1)
    made.lost("cut")
    made.requests.submit(2, b"2")
    assert made.ask(3) is None
    made.connected()
    assert made.next_write() is QUESTION
    outcomes = {each.key: each.result for each in made.answered(Declined(0, kind, "no")).outcomes}
    refused = RequestFailure(FailureCause.REFUSED, 0, "no", kind)
    assert outcomes == {3: refused, 2: refused, 1: RequestFailure(FailureCause.UNKNOWN, 1, "no")}
    assert (made.requests.count, made.has_work()) == (1, False)


@pytest.mark.parametrize("kind", sorted(PASSING, key=lambda kind: kind.name))
def test_a_question_refused_for_now_is_asked_again(kind: DeclineKind):
    made = ProducerMachine(10, 1000)
    made.requests.submit(1, b"1")
    made.connected()
    made.next_write()
    assert made.answered(Declined(0, kind)).is_failure
    reconnect(made, 0)
    assert numbers(made) == [(1, 1)]


@pytest.mark.parametrize("by_gap", [True, False])
def test_a_site_that_lost_answered_requests_ends_the_producer(by_gap: bool):
    made = machine(5, 2, written=2)
    if by_gap:
        reaction = made.answered(Declined(6, DeclineKind.GAP, "", last_sequence=3))
    else:
        made.lost("cut")
        reaction = reconnect(made, 3)
    assert {each.result.cause for each in reaction.outcomes} == {FailureCause.HISTORY_LOST}
    assert [each.key for each in reaction.outcomes] == [1, 2]
    assert made.end is not None
    assert not made.has_work()


def test_a_gap_that_cannot_be_is_tried_again():
    made = machine(5, 1, written=1)
    reaction = made.answered(Declined(6, DeclineKind.GAP, "", last_sequence=5))
    assert (reaction.outcomes, reaction.is_failure) == ((), True)
    assert made.end is None


def test_numbers_of_another_process_end_the_producer():
    made = machine(5, 1, written=1)
    made.lost("cut")
    reaction = reconnect(made, 7)
    assert [(each.key, each.result.cause) for each in reaction.outcomes] == [(1, FailureCause.TAKEN)]
    assert made.end is not None


@pytest.mark.parametrize("answer", [Accepted(2), Accepted(0), Declined(2, DeclineKind.INVALID), Accepted(2**64 - 1)])
def test_an_answer_to_another_number_ends_the_stream_and_changes_nothing(answer: Accepted | Declined):
    made = machine(0, 2, written=2)
    reaction = made.answered(answer)
    assert (reaction.outcomes, reaction.is_failure, made.phase) == ((), True, StreamPhase.CLOSED)
    reconnect(made, 0)
    assert numbers(made) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("answer", [Accepted(1), Declined(1, DeclineKind.INVALID)])
@pytest.mark.parametrize("phase", [StreamPhase.CLOSED, StreamPhase.OPENED, StreamPhase.READY])
def test_an_answer_without_a_question_changes_nothing(answer: Accepted | Declined, phase: StreamPhase):
    made = machine(0, 1)
    made.phase = phase
    assert made.answered(answer).outcomes == ()
    reconnect(made, 0)
    assert numbers(made) == [(1, 1)]


def test_the_question_alone_is_answered_without_a_request():
    made = ProducerMachine(10, 1000)
    assert made.ask(1) is None
    assert made.has_work()
    assert reconnect(made, 9).outcomes == (RequestOutcome(1, Produced(9, ORIGIN, "")),)
    assert made.ask(2) == RequestOutcome(2, Produced(9, ORIGIN, ""))


def test_a_question_without_an_answer_expires():
    made = ProducerMachine(10, 1000)
    made.ask(1)
    assert made.expired(1) is not None
    assert not made.has_work()


def test_room_is_bounded_by_requests_and_by_bytes_but_one_request_may_be_larger():
    made = ProducerMachine(2, 10)
    assert made.requests.has_room(1_000_000)
    made.requests.submit(1, bytes(4))
    assert (made.requests.has_room(6), made.requests.has_room(7)) == (True, False)
    made.requests.submit(2, b"")
    assert not made.requests.has_room(0)
    reconnect(made, 0)
    numbers(made)
    made.answered(Accepted(1))
    assert (made.requests.has_room(10), made.requests.has_room(11)) == (True, False)


def test_a_large_request_travels_alone_so_a_limit_of_the_transport_names_it():
    made = ProducerMachine(10, 10**9)
    for key, size in enumerate([1, ALONE_BYTES + 1, 1], start=1):
        made.requests.submit(key, bytes(size))
    reconnect(made, 0)
    assert numbers(made) == [(1, 1)]
    made.answered(Accepted(1))
    assert numbers(made) == [(2, 2)]
    outcomes = made.too_large("too large").outcomes
    assert outcomes[0] == RequestOutcome(2, RequestFailure(FailureCause.REFUSED, 2, "too large", DeclineKind.TOO_LARGE))
    assert [each.key for each in outcomes] == [2, 3]


def test_a_limit_of_the_transport_blames_no_small_request():
    made = machine(0, 1, written=1)
    assert (made.too_large("too large").outcomes, made.too_large("x").is_failure) == ((), True)


def test_the_end_of_an_idle_stream_is_no_failure_and_loses_nothing():
    made = machine(0, 1, written=1)
    made.answered(Accepted(1))
    assert not made.finished().is_failure
    made.requests.submit(2, b"2")
    assert made.has_work()
    reconnect(made, 1)
    assert numbers(made) == [(2, 2)]


def test_a_stream_that_ends_before_it_stored_a_request_is_a_failure():
    made = machine(0, 1, written=1)
    assert made.finished().is_failure


@pytest.mark.parametrize("in_answer_to", ["question", "request"])
def test_numbers_that_another_process_has_taken_end_the_producer(in_answer_to: str):
    made = machine(4, 2, written=2)
    if in_answer_to == "question":
        made.lost("cut")
        made.connected()
        made.next_write()
    reaction = made.answered(Declined(0 if in_answer_to == "question" else 5, DeclineKind.TAKEN, "late"))
    assert reaction.ends
    assert reaction.outcomes == (
        RequestOutcome(1, RequestFailure(FailureCause.TAKEN, 5, "late")),
        RequestOutcome(2, RequestFailure(FailureCause.TAKEN, 6, "late")),
    )
    assert made.end is not None


def test_the_first_number_of_a_producer_stays_the_one_after_the_first_answer():
    made = machine(4, 2)
    assert made.first_number == 5
    assert numbers(made) == [(1, 5), (2, 6)]
    made.lost("cut")
    reconnect(made, 6)
    assert made.first_number == 5
