"""Errors of settings: each tells the place of the wrong value and the cure, in words of lrq."""

import re
from typing import Any

import pytest

from lr_server.settings import Settings
from queues.errors import ConfigurationError

MINIMAL: dict[str, Any] = {"site_id": "paris", "database_url": "sqlite:///paris.db"}
RING: dict[str, Any] = {"members": ["tcp://a:1", "tcp://b:1", "tcp://c:1"], "rank": 0, "witness": "/w"}
WRONG = (True, 5, -1, 1.5, 10**30, float("nan"), "abc", [1], ["a"], {"a": 1}, {"tokyo": {"x": 1}}, {"tokyo": [1]})
#: Words of Pydantic and of Python, which an operator need not know.
LIBRARY_WORDS = re.compile(
    r"Input|Value |should|valid (string|integer|boolean|dictionary)|<class|instance|Sequence|pars"
)


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"LRQ_{name.upper()}", raising=False)


def told(**values: Any) -> str:
    """Return the error of the server's settings; empty if they are right."""
    try:
        Settings(**{**MINIMAL, **values})
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", Settings.model_fields)
def test_no_word_of_a_library_is_told_for_a_wrong_value(name: str):
    errors = [told(**{name: value}) for value in WRONG]
    assert any(errors)
    assert [error for error in errors if LIBRARY_WORDS.search(error) or "\n" in error] == []


@pytest.mark.parametrize("name", [*RING, "names", "lease_seconds", "acknowledging_followers", "trim", "rings"])
def test_no_word_of_a_library_is_told_for_a_wrong_value_of_a_ring(name: str):
    errors = [told(ring={**RING, name: value}) for value in WRONG]
    assert [error for error in errors if LIBRARY_WORDS.search(error)] == []
    assert any(error.startswith(f"ring.{name}") for error in errors)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"ingest": "maybe"}, "ingest: write true or false"),
        ({"tick_rows": True}, "tick_rows: write a whole number"),
        ({"lease_seconds": True}, "lease_seconds: write a number"),
        ({"ring": {**RING, "rank": False}}, "ring.rank: write a whole number"),
        ({"tls_key": 5}, "tls_key: write the path of a file in quotes"),
        ({"metrics": 9464}, "metrics: write text in quotes"),
        ({"listen": 5}, 'listen: write a list, such as ["first", "second"]'),
        ({"listen": [5]}, "listen[0]: write text in quotes"),
        ({"peers": ["tokyo"]}, "peers: write a table"),
        ({"peers": {5: "tcp://a:1"}}, "peers[5]: write text in quotes"),
        ({"replicas": {"tokyo": ["a", 5]}}, "replicas[tokyo][1]: write text in quotes"),
        ({"replicas": {"tokyo": "a"}}, 'replicas[tokyo]: write a list, such as ["first", "second"]'),
        ({"producers": {"meter": 5}}, "producers[meter]: write a table"),
        ({"producers": {"meter": {"clients": [5]}}}, "producers[meter].clients[0]: write text in quotes"),
        ({"producers": {"meter": {"x": 5}}}, "there is no setting 'producers.meter.x'"),
        ({"heartbeat_seconds": -1}, "heartbeat_seconds: write a number above 0"),
        ({"max_connections": 1}, "max_connections: write a number of at least 9"),
        ({"ranges": 1.5}, "ranges: write a whole number"),
        ({"lease_seconds": "long"}, "lease_seconds: write a number"),
        ({"ring": {**RING, "rank": 7}}, "ring.rank: write a number of at most 2"),
        ({"ring": {**RING, "members": ["tcp://a:1"]}}, "ring.members: write at least 3 values, not 1"),
        ({"ring": {**RING, "members": ["tcp://a:1"] * 4}}, "ring.members: write at most 3 values, not 4"),
    ],
)
def test_an_error_names_the_place_of_the_value_and_the_cure(values: dict[str, Any], sentence: str):
    assert told(**values) == sentence


@pytest.mark.parametrize("name", RING)
def test_a_missing_line_of_the_table_of_a_ring_is_named(name: str):
    ring = {key: value for key, value in RING.items() if key != name}
    assert told(ring=ring) == f"ring.{name} is missing: write it in the table"


def test_a_variable_has_the_same_errors_as_the_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LRQ_INGEST", "maybe")
    assert told() == "ingest: write true or false"
