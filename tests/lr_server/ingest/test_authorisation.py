"""Which producer may use which clients and destinations."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest

from lr_server.ingest.authorisation import Use, denial, rule_for


@dataclass(frozen=True)
class Table:
    clients: Sequence[str] = ()
    destinations: Sequence[str] = ()


ALL = Table()


@pytest.mark.parametrize(
    ("producer", "rule"),
    [
        ("meter-17", "meter-17"),
        ("meter-18", "meter-*"),
        ("meter-170", "meter-17*"),
        ("meter", "*"),
        ("meter-", "meter-*"),
        ("other", "*"),
        ("meter-*", "meter-*"),
    ],
)
def test_the_exact_name_comes_first_and_then_the_longest_pattern(producer: str, rule: str) -> None:
    rules = {name: Table((name,)) for name in ("*", "meter-*", "meter-17*", "meter-17")}
    assert rule_for(producer, rules) is rules[rule]


def test_a_name_without_a_star_is_no_pattern() -> None:
    assert rule_for("meter-17", {"meter-1": ALL}) is None
    assert rule_for("meter", {"meter-*": ALL, "m": ALL, "r*": ALL}) is None


def test_every_combination_of_a_rule_and_a_request_is_decided_by_each_name_alone() -> None:
    for clients, destinations, client, wanted in product(
        ((), ("a",), ("a", "b")),
        ((), ("x",), ("x", "y")),
        ("a", "b", "c"),
        ((), ("x",), ("x", "y"), ("z",), ("x", "z")),
    ):
        allowed = (not clients or client in clients) and (not destinations or set(wanted) <= set(destinations))
        found = denial(Use("p", client, frozenset(wanted)), {"p": Table(clients, destinations)}, None)
        assert (found == "") == allowed, (clients, destinations, client, wanted, found)


@pytest.mark.parametrize("rules", [{"p": ALL}, {"*": ALL}, {"q": ALL}, {}])
@pytest.mark.parametrize("certified", [None, frozenset(), frozenset("p"), frozenset("q"), frozenset("pq")])
def test_a_certificate_must_name_the_producer_and_a_rule_must_fit(
    rules: dict[str, Table], certified: frozenset[str] | None
) -> None:
    allowed = (certified is None or "p" in certified) and bool(rules.keys() & {"p", "*"})
    assert (denial(Use("p", "a", frozenset("x")), rules, certified) == "") == allowed


def test_each_sentence_names_the_forbidden_and_the_allowed() -> None:
    rules = {"p": Table(("a", "b"), ("x",))}
    x = frozenset("x")
    assert denial(Use("p", "c", x), rules, None) == "producer 'p' may not use client 'c': `producers` allows a, b"
    assert denial(Use("p", "a", x | {"y"}), rules, None) == "producer 'p' may not send to 'y': `producers` allows x"
    assert denial(Use("q", "a", x), rules, None) == "no rule in `producers` fits 'q': add that name there"
    assert denial(Use("p", "a", x), rules, {"q"}) == (
        "the certificate shown names 'q', not producer 'p': use one that does"
    )


def test_a_long_name_does_not_fill_the_sentence() -> None:
    assert len(denial(Use("p" * 10_000, "a", frozenset()), {}, None)) < 200
