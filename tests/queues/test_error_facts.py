"""The stored facts of an error: its class, its place and a traceback without messages, source lines and values."""

import json

import pytest

from queues.error_facts import LONGEST_TRACE, facts_of


def apply(payload: str) -> None:
    secret = "the-secret-of-a-line"  # noqa: F841 - must not be stored
    json.loads(payload)


def raised(function, *given) -> Exception:
    try:
        function(*given)
    except Exception as error:  # noqa: BLE001 - the error is the result
        return error
    raise AssertionError("no error")


def test_the_class_and_the_place_in_the_listener_are_stored():
    facts = facts_of(raised(apply, "{payload"))
    assert facts.error.startswith("JSONDecodeError: Expecting property name")
    assert facts.error_class == "JSONDecodeError"
    assert facts.place == "test_error_facts.py, line 12, in apply"


def test_a_traceback_has_no_message_no_line_of_code_and_no_value():
    facts = facts_of(raised(wrapped, "the payload"))
    for hidden in ("the payload", "the-secret-of-a-line", "json.loads", "wrapped around"):
        assert hidden not in facts.trace
    assert "in wrapped" in facts.trace
    assert facts.trace.index("JSONDecodeError") < facts.trace.index("led to") < facts.trace.index("KeyError")


def wrapped(payload: str) -> None:
    try:
        apply(payload)
    except ValueError as error:
        raise KeyError(f"wrapped around {payload}") from error


def test_a_long_traceback_keeps_its_end():
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        apply("{payload")

    facts = facts_of(raised(deep, 200))
    assert len(facts.trace) <= LONGEST_TRACE
    assert facts.trace.endswith("JSONDecodeError")
    assert f"in {apply.__qualname__}" in facts.trace


def test_a_name_that_could_steer_a_terminal_is_replaced():
    error = raised(apply, "x")
    strange = type("Er\x1b[2Jror", (ValueError,), {})()
    strange.__cause__ = error
    assert "\x1b" not in "".join(facts_of(strange))


def test_an_error_without_a_traceback_has_no_place():
    assert facts_of(ValueError("never raised"))[1:3] == ("ValueError", "")


@pytest.mark.parametrize("said", ["", "in other words"])
def test_the_sentence_may_be_given(said: str):
    assert facts_of(ValueError("x"), said).error == (said or "ValueError: x")
