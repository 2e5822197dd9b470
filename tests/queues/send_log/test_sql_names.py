"""SQL accepts and refuses the same names, keys and headers as Python."""

import contextlib
import json
import sys
import unicodedata
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from queues.destinations import destination_set
from queues.names import ClientName, client_name
from tests.queues.send_log.sql_calls import sql_transmit

# Letters that join, letters with a normal form, marks, digits of all kinds, punctuation, and any other text.
_TRICKY = "aZ09_.-é\u0301ı\u212b\uf900가각\u1100\u1161\u11a8\uac00½²Ⅷ०ैß\u200d\ufffd ,'\"\\\n😀\U0002f800\U00020000"
NAMES = st.text(st.sampled_from(_TRICKY) | st.characters(exclude_categories=["Cs"]), max_size=66).filter(
    lambda name: "\0" not in name
)
UNTIL_FULL = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def accepts(check: Callable[[], object], *errors: type[Exception]) -> bool:
    with contextlib.suppress(*errors):
        check()
        return True
    return False


@pytest.fixture
def connection(site: Engine) -> Iterator[Connection]:
    with site.connect() as opened:
        yield opened
        opened.rollback()


def sql_accepts(connection: Connection, **values: object) -> bool:
    with connection.begin_nested():
        return accepts(lambda: savepoint(connection, values), DBAPIError)


def savepoint(connection: Connection, values: dict[str, object]) -> None:
    with connection.begin_nested():
        sql_transmit(connection, **({"payload": b"", "destinations": ["tokyo"]} | values))  # type: ignore[arg-type]


@UNTIL_FULL
@given(name=NAMES)
def test_the_same_names_are_accepted(connection: Connection, name: str) -> None:
    expected = accepts(lambda: client_name(name), ValueError)
    assert sql_accepts(connection, client=name) == expected
    # A comma separates site ids on SQLite.
    if "," not in name:
        wanted = accepts(lambda: destination_set(ClientName("policy"), [name, "tokyo"]), ValueError) and name != "paris"
        assert sql_accepts(connection, destinations=[name, "tokyo"]) == (wanted and name != "")


@pytest.mark.long
def test_a_letter_is_accepted_or_refused_as_in_python(connection: Connection) -> None:
    # A sample, because SQL takes long for a million letters.
    points = sorted({*range(1, 0x500), *range(1, 0xD800, 37), *range(0xE000, sys.maxunicode + 1, 37)})
    letters = [chr(point) for point in points]
    expected = {
        letter for letter in letters if (letter.isalnum() or letter == "_") and unicodedata.is_normalized("NFC", letter)
    }
    if connection.dialect.name == "sqlite":
        rule = "NOT (a.value GLOB '*[^0-9A-Z_a-z.-]*' AND a.value GLOB (SELECT outside FROM lrq_name_rules))"
        query = f"SELECT a.value FROM json_each(:letters) AS a WHERE {rule}"
        found = set(connection.execute(text(query), {"letters": json.dumps(letters)}).scalars())
        assert found - set(".-") == expected
        return
    connection.execute(
        text(
            "CREATE FUNCTION is_name(name text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM "
            "lrq_check_name(name, 'name'); RETURN true; EXCEPTION WHEN SQLSTATE 'LR001' THEN RETURN false; END $$"
        )
    )
    query = "SELECT a.name FROM unnest(CAST(:letters AS text[])) AS a (name) WHERE is_name(a.name)"
    assert set(connection.execute(text(query), {"letters": letters}).scalars()) == expected


@UNTIL_FULL
@given(first=st.sampled_from("aé가각ᄀ하ᅵᆨᇂ힣"), second=st.sampled_from("aé가가ᅵᆨᇂ\u11a7\u1176"))
def test_letters_that_join_are_refused_in_a_row(connection: Connection, first: str, second: str) -> None:
    name = f"x{first}{second}"
    assert sql_accepts(connection, client=name) == accepts(lambda: client_name(name), ValueError)


@UNTIL_FULL
@given(size=st.sampled_from([0, 1, 511, 512, 513]), letter=st.sampled_from("a\té\n😀"))
def test_keys_have_the_same_length_in_characters(connection: Connection, size: int, letter: str) -> None:
    from queues.entry_keys import checked_key

    key = letter * size
    expected = accepts(lambda: checked_key(key, "item_key"), ValueError)
    assert sql_accepts(connection, item_key=key) == expected
    assert sql_accepts(connection, partition_key=key) == expected
