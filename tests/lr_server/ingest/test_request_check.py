"""One request is read and checked before anything is stored."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.ingest.refusal import Refusal
from lr_server.ingest.request_check import MAX_FIELDS, RequestChecks, RequestLimits, parse
from lr_server.setting_types import ProducerRule
from queues.send_log.producers import MAX_SEQUENCE, Production
from queues.wire import ingest_pb2 as pb

Kind = pb.ProduceRefusal
LIMITS = RequestLimits(
    request_bytes=1_000, payload_bytes=10, messages=3, clients=frozenset({"meters"}), rules={"*": ProducerRule()}
)


def asked(sequence: int = 1, *messages: dict[str, Any], **fields: Any) -> pb.ProduceRequest:
    return pb.ProduceRequest(
        **{"client": "meters", "producer": "p", "sequence": sequence, **fields},
        messages=[pb.ProducedMessage(**{"payload": b"x", "destinations": ["tokyo"], **each}) for each in messages],
    )


def test_a_good_request_becomes_entries_in_its_order() -> None:
    request = asked(
        7, {"payload": b"a", "item_key": "i"}, {"payload": b"", "partition_key": "p", "headers": {"b": "2", "a": "1"}}
    )
    made = RequestChecks(LIMITS).check(request, None)
    assert isinstance(made, Production)
    assert (made.key, made.sequence) == (("meters", "p"), 7)
    assert [(e.payload, e.item_key, e.partition_key, e.headers) for e in made.entries] == [
        (b"a", "i", None, None),
        (b"", None, "p", '{"a":"1","b":"2"}'),
    ]
    assert {e.destinations.text for e in made.entries} == {"tokyo"}


def test_a_question_has_no_messages() -> None:
    assert RequestChecks(LIMITS).check(asked(0), None) == Production(("meters", "p"), 0, [])


@pytest.mark.parametrize(
    ("request_", "kind", "words"),
    [
        (asked(1, {}, client="no name"), Kind.INVALID, "is not a valid client name"),
        (asked(1, {}, producer=""), Kind.INVALID, "is not a valid producer name"),
        (asked(1, {}, producer="p" * 65), Kind.INVALID, "is not a valid producer name"),
        (asked(1, {}, client="rules"), Kind.UNKNOWN_CLIENT, "this site has no client 'rules': use one of meters"),
        (asked(1), Kind.INVALID, "request 1 has no messages"),
        (asked(0, {}), Kind.INVALID, "needs a sequence"),
        (asked(MAX_SEQUENCE + 1, {}), Kind.INVALID, "count the requests from 1"),
        (asked(1, {}, {}, {}, {}), Kind.TOO_LARGE, "4 messages, the limit is 3"),
        (asked(1, {"payload": b"x" * 11}), Kind.TOO_LARGE, "the payload has 11 bytes, the limit is 10"),
        (asked(1, {"destinations": []}), Kind.INVALID, "name at least one destination"),
        (asked(1, {}, {"destinations": ["tokyo", "not a site"]}), Kind.INVALID, "is not a valid site id"),
        (asked(1, {"item_key": ""}), Kind.INVALID, "item_key must be a string of 1 to 512"),
        (asked(1, {"partition_key": "a\0"}), Kind.INVALID, "partition_key must be"),
        (asked(1, {"headers": {"n": "a\0"}}), Kind.INVALID, "NUL"),
        (asked(1, {"headers": {str(n): "" for n in range(33)}}), Kind.INVALID, "at most 32 headers"),
    ],
)
def test_each_mistake_has_one_kind_and_one_sentence(request_: pb.ProduceRequest, kind: int, words: str) -> None:
    refusal = RequestChecks(LIMITS).check(request_, None)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == kind
    assert words in refusal.reason


def test_a_destination_outside_the_rules_is_not_allowed() -> None:
    rules = {"p": ProducerRule(clients=["meters"], destinations=["lima"])}
    limits = RequestLimits(1_000, 10, 3, rules=rules)
    refusal = RequestChecks(limits).check(asked(1, {"destinations": ["lima"]}, {"destinations": ["tokyo"]}), None)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == Kind.NOT_ALLOWED
    assert isinstance(RequestChecks(limits).check(asked(1, {"destinations": ["lima"]}), {"p"}), Production)
    assert isinstance(RequestChecks(limits).check(asked(1, {"destinations": ["lima"]}), {"q"}), Refusal)


def test_a_request_above_the_limit_of_bytes_is_not_even_read() -> None:
    refusal = parse(b"\xff" * 1_003, LIMITS)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == Kind.TOO_LARGE


def test_a_request_at_the_limit_of_bytes_is_taken_also_from_another_server_of_the_site() -> None:
    request = asked(1, {"payload": b"x" * 900})
    limits = RequestLimits(request.ByteSize(), 1_000, 3)
    assert isinstance(parse(request.SerializeToString(), limits), pb.ProduceRequest)
    request.hops = 1
    assert isinstance(parse(request.SerializeToString(), limits), pb.ProduceRequest)
    request.messages[0].payload += b"x"
    assert isinstance(parse(request.SerializeToString(), limits), Refusal)
    request.hops = 0
    assert isinstance(parse(request.SerializeToString(), limits), Refusal)


@pytest.mark.long
def test_millions_of_empty_messages_are_counted_before_they_take_memory() -> None:
    limits = RequestLimits(16 * 1024**2, 10, 3)
    refusal = parse(b"\x22\x00" * (MAX_FIELDS + 100), limits)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == Kind.TOO_LARGE
    assert f"more than {MAX_FIELDS} messages" in refusal.reason


@given(st.binary(max_size=200))
def test_no_message_raises_an_error(message: bytes) -> None:
    request = parse(message, LIMITS)
    if isinstance(request, Refusal):
        assert request.kind == Kind.INVALID
    else:
        assert isinstance(RequestChecks(LIMITS).check(request, None), Production | Refusal)


NAMES = list(product(["meters", "rules"], ["p", "q"], [["tokyo"], ["lima"]], [None, frozenset({"p"})]))


@given(st.lists(st.sampled_from(NAMES), min_size=40, max_size=40))
def test_the_memory_of_a_stream_changes_no_answer(
    asks: list[tuple[str, str, list[str], frozenset[str] | None]],
) -> None:
    rules = {"p": ProducerRule(destinations=["tokyo"]), "q": ProducerRule()}
    limits = RequestLimits(1_000, 10, 3, clients=frozenset({"meters"}), rules=rules)
    checks = RequestChecks(limits)
    for client, producer, destinations, certified in asks:
        request = asked(1, {"destinations": destinations}, client=client, producer=producer)
        assert checks.check(request, certified) == RequestChecks(limits).check(request, certified)


@pytest.mark.parametrize(
    ("client", "producer", "destination", "certified"),
    [("rules", "q", "lima", None), ("meters", "p", "lima", None), ("meters", "q", "lima", frozenset({"p"}))],
)
def test_a_request_with_other_names_than_the_one_before_is_checked_anew(
    client: str, producer: str, destination: str, certified: frozenset[str] | None
) -> None:
    rules = {"p": ProducerRule(destinations=["tokyo"]), "q": ProducerRule()}
    checks = RequestChecks(RequestLimits(1_000, 10, 3, clients=frozenset({"meters"}), rules=rules))
    allowed = asked(1, {"destinations": ["lima"]}, producer="q")
    assert isinstance(checks.check(allowed, None), Production)
    other = asked(2, {"destinations": [destination]}, client=client, producer=producer)
    assert isinstance(checks.check(other, certified), Refusal)
