"""Texts of others are stored and shown in a bounded form without payloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import exc

from queues.errors import ListenerError
from queues.words import LONGEST, cleaned, describe, in_words, place_of, traced


class Unreadable(Exception):  # noqa: N818 - an application's error
    def __str__(self) -> str:
        raise RuntimeError("no words")


def refused(payload: bytes) -> exc.IntegrityError:
    """Return an error of SQLAlchemy, which shows the parameters of its statement."""
    return exc.IntegrityError("INSERT INTO rules VALUES (?)", {"payload": payload}, ValueError("taken\nDETAIL: more"))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("no such site", "no such site"),
        ("a\0b", "a�b"),
        ("a\ud800\udfffb", "a��b"),
        ("", ""),
        ("é漢😀", "é漢😀"),
    ],
)
def test_only_characters_that_cannot_be_stored_are_replaced(text: str, kept: str):
    assert cleaned(text) == kept


def test_a_long_text_is_cut_and_shows_it():
    assert cleaned("x" * 3_500_000) == "x" * (LONGEST - 1) + "…"
    assert cleaned("x" * LONGEST) == "x" * LONGEST
    assert cleaned("abcdef", 3) == "ab…"


@given(st.text(st.characters(codec=None), max_size=40), st.integers(1, 20))
def test_every_text_becomes_storable_once_and_for_all(text: str, longest: int):
    kept = cleaned(text, longest)
    assert "\0" not in kept.encode().decode()
    assert len(kept) <= longest
    assert cleaned(kept, longest) == kept


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError(), "ValueError"),
        (ValueError("a\0b\ud800"), "ValueError: a�b�"),
        (refused(b"secret"), "ValueError: taken"),
        (Unreadable(), "Unreadable: (its text cannot be read: RuntimeError)"),
        (ListenerError("refused"), "ListenerError: refused"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_described_by_its_class_and_first_line(error: BaseException, words: str):
    assert describe(error) == words


def test_the_sentence_of_an_lrq_error_stands_alone():
    assert in_words(ListenerError("refused")) == "refused"
    assert in_words(ValueError("x")) == "ValueError: x"


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001 - the tests look at its traceback
        return caught


def test_a_traceback_shows_the_lines_of_code_and_no_parameters():
    text = traced(raised(refused(b"secret"), raised(KeyError("k"))))
    assert text.count("in raised") == 2
    assert text.index("KeyError: 'k'") < text.index("ValueError: taken")
    assert "secret" not in text
    assert "INSERT" not in text


def test_a_traceback_of_a_circle_of_causes_ends():
    one, two = raised(ValueError("one")), raised(ValueError("two"))
    one.__cause__, two.__cause__ = two, one
    assert "ValueError: one" in traced(one)


def test_a_place_is_equal_for_the_same_line_and_class_only():
    assert place_of(raised(ValueError("1"))) == place_of(raised(ValueError("2")))
    assert place_of(raised(ValueError("1"))) != place_of(raised(KeyError("1")))
    again = raised(ValueError("1"))
    before = place_of(again)
    assert place_of(raised(again)) == before
    assert place_of(raised(ValueError("1"))) != place_of(raised(ValueError("1"), raised(KeyError("k"))))
