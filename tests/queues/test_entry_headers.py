"""The limits of headers, and their text."""

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.entry_headers import MAX_BYTES, MAX_HEADERS, MAX_NAME_LENGTH, checked_headers, parse
from queues.errors import CorruptFrameError, InvalidHeadersError, UsageError

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
HEADERS = st.dictionaries(TEXTS.filter(bool), TEXTS, min_size=1, max_size=MAX_HEADERS)


@given(HEADERS)
def test_headers_come_back_from_their_text(headers: dict[str, str]) -> None:
    text = checked_headers(headers)
    assert text is not None
    assert parse(text) == headers


@given(HEADERS)
def test_equal_headers_have_one_text_in_any_order(headers: dict[str, str]) -> None:
    turned = dict(reversed(list(headers.items())))
    assert checked_headers(turned) == checked_headers(MappingProxyType(headers))


@given(HEADERS)
def test_a_text_with_the_spaces_of_jsonb_is_read_too(headers: dict[str, str]) -> None:
    assert parse(json.dumps(headers, ensure_ascii=False)) == headers


def test_the_text_is_sorted_and_has_no_spaces() -> None:
    assert checked_headers({"b": "2", "a": "é"}) == '{"a":"é","b":"2"}'


@pytest.mark.parametrize("headers", [None, {}])
def test_no_headers_have_no_text(headers: Mapping[str, str] | None) -> None:
    assert checked_headers(headers) is None


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ("a=b", "a mapping"),
        ([("a", "b")], "a mapping"),
        ({f"{n}": "" for n in range(MAX_HEADERS + 1)}, "at most 32"),
        ({"": "x"}, "1 to 128 characters"),
        ({"n" * (MAX_NAME_LENGTH + 1): "x"}, "1 to 128 characters"),
        ({1: "x"}, "1 to 128 characters"),
        ({"a": 1}, "must be a string, not int"),
        ({"a": None}, "must be a string, not NoneType"),
        ({"a": b"x"}, "must be a string, not bytes"),
        ({"a": "x\0"}, "NUL"),
        ({"a\0": "x"}, "NUL"),
        ({"a": "\ud800"}, "no Unicode text"),
        ({"\udfff": "x"}, "no Unicode text"),
        ({"a": "x" * MAX_BYTES}, "8200 bytes as JSON"),
        ({"a": "é" * (MAX_BYTES // 2)}, "8200 bytes as JSON"),
    ],
)
def test_other_headers_are_refused_in_one_sentence(headers: Mapping[str, str], words: str) -> None:
    with pytest.raises(InvalidHeadersError, match=words) as refused:
        checked_headers(headers)
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, UsageError)


@pytest.mark.parametrize("letter", ["x", "é"])
def test_headers_of_exactly_the_limit_are_taken(letter: str) -> None:
    size = MAX_BYTES - len('{"a":""}')
    text = checked_headers({"a": letter * (size // len(letter.encode()))})
    assert text is not None
    assert len(text.encode()) == MAX_BYTES


def test_the_most_and_the_longest_names_are_taken() -> None:
    assert checked_headers({f"{n:0128}": "" for n in range(MAX_HEADERS)})


DAMAGED = ["{}", "[]", "x", '"a"', '{"a":1}', '{"a":null}', '{"a":{"b":"c"}}', '{"a":"\\u0000"}', '{"":"x"}']
LARGE = ["[" * 8_000, "[" * 9_000, '{"a":"' + "x" * 9_000 + '"}', '{"a":"' + "é" * 4_500 + '"}']


@pytest.mark.parametrize("text", ["", *DAMAGED, *LARGE], ids=lambda text: text[:12])
def test_a_stored_text_that_is_no_headers_is_an_error(text: str) -> None:
    with pytest.raises(CorruptFrameError, match="the headers of an entry"):
        parse(text)


def test_the_largest_headers_are_read_with_the_spaces_of_jsonb_too() -> None:
    headers = {f"{n:02}": "x" for n in range(MAX_HEADERS)}
    headers["00"] = "x" * (MAX_BYTES - len(checked_headers(headers) or "") + 1)
    assert len(checked_headers(headers) or "") == MAX_BYTES
    assert parse(json.dumps(headers)) == headers
