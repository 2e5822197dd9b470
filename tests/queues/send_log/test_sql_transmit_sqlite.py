"""The view `lrq_transmit` works from every connection to the file, and divides statements into source transactions."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import queues
from lr_client import RoutingQueueSenderClient
from lr_server.feed.router import after_cut
from queues.names import SiteId
from queues.positions import Visibility
from queues.send_log.known_sites import KnownSites, record_known
from tests.queues.reading import Reader

Connect = Callable[[], sqlite3.Connection]
INSERT = "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', x'01', 'tokyo')"
KEYED = "INSERT INTO lrq_transmit (client, payload, destinations, transaction_key) VALUES ('policy', ?, 'tokyo', ?)"
# A change between two statements shows the view that there are two.
BETWEEN = "INSERT INTO orders VALUES (1)"


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(site: Engine) -> Iterator[Connect]:
    """Give a function that connects as an application without lrq does, in autocommit."""
    opened: list[sqlite3.Connection] = []

    def open_file() -> sqlite3.Connection:
        opened.append(sqlite3.connect(str(site.url.database), isolation_level=None))
        return opened[-1]

    open_file().execute("CREATE TABLE orders (id INTEGER)")
    yield open_file
    for connection in opened:
        connection.close()


def transactions(reader: Reader) -> list[list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for row in reader.drain():
        found.setdefault(row.transaction, []).append(row.payload)
    return list(found.values())


def test_all_rows_of_one_statement_are_one_source_transaction(connect: Connect, reader: Reader) -> None:
    connection = connect()
    connection.executescript(
        f"BEGIN; {INSERT}; {BETWEEN}; INSERT INTO lrq_transmit (client, payload, destinations) "
        f"VALUES ('policy', x'02', 'tokyo'), ('other', x'03', 'lima'), ('policy', x'04', 'tokyo,lima'); {BETWEEN}; "
        "WITH RECURSIVE n (i) AS (SELECT 5 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        "INSERT INTO lrq_transmit (client, payload, destinations) SELECT 'policy', CAST(i AS BLOB), 'tokyo' FROM n;"
        "COMMIT"
    )
    found = transactions(reader)
    assert found[:2] == [[b"\1"], [b"\2", b"\3", b"\4"]]
    assert found[2:] == [[str(number).encode() for number in range(5, 2001)]]


def test_statements_with_one_transaction_key_are_one_source_transaction(connect: Connect, reader: Reader) -> None:
    connection = connect()
    for key in ("first", "second"):
        connection.execute("BEGIN")
        for payload in (b"1", b"2"):
            connection.execute(KEYED, (key.encode() + payload, key))
            connection.execute(BETWEEN)
        connection.execute("COMMIT")
    assert transactions(reader) == [[b"first1", b"first2"], [b"second1", b"second2"]]
    connection.execute(KEYED, (b"after a tick", "second"))
    assert transactions(reader) == [[b"after a tick"]]


def test_a_key_after_an_entry_of_another_connection_begins_anew(site: Engine, connect: Connect, reader: Reader) -> None:
    one = connect()
    one.execute(KEYED, (b"1", "key"))
    with site.begin() as python:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(python, b"2", ["tokyo"])
    one.execute(KEYED, (b"3", "key"))
    assert transactions(reader) == [[b"1"], [b"2"], [b"3"]]


def test_separate_statements_are_separate_source_transactions(connect: Connect, reader: Reader) -> None:
    # So many statements that several share a millisecond.
    connect().executescript(f"BEGIN; {f'{INSERT}; {BETWEEN};' * 500} COMMIT")
    assert transactions(reader) == [[b"\1"]] * 500


def test_an_entry_that_joins_a_transaction_after_a_cut_is_not_in_the_snapshot(connect: Connect, reader: Reader) -> None:
    connection = connect()
    connection.execute(KEYED, (b"in the snapshot", "key"))
    cut = Visibility(high=1)
    connection.execute(KEYED, (b"after it", "key"))
    rows = reader.drain()
    assert len({row.transaction for row in rows}) == 1
    assert [row.payload for row in after_cut(rows, cut)] == [b"after it"]


def test_entries_of_the_view_join_the_entries_of_python_around_them(site: Engine, reader: Reader) -> None:
    client = RoutingQueueSenderClient("policy")
    with site.begin() as connection:
        client.transmit_log_entry_message(connection, b"1", ["tokyo"])
        undone = connection.begin_nested()
        client.transmit_log_entry_message(connection, b"undone", ["tokyo"])
        undone.rollback()
        connection.execute(text(INSERT))
        client.transmit_log_entry_message(connection, b"2", ["tokyo"])
    assert transactions(reader) == [[b"1", b"\1", b"2"]]


def test_an_error_ends_the_statement_but_not_the_transaction(connect: Connect, reader: Reader) -> None:
    connection = connect()
    connection.execute("BEGIN")
    connection.execute(KEYED, (b"1", "key"))
    with pytest.raises(sqlite3.IntegrityError, match=r"\(LR001\)"):
        connection.execute(
            "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', x'01', 'tokyo'), ('', x'', 'a')"
        )
    connection.execute(KEYED, (b"2", "key"))
    connection.execute("COMMIT")
    assert transactions(reader) == [[b"1", b"2"]]


def test_the_token_is_that_of_the_last_entry(connect: Connect) -> None:
    connection = connect()
    connection.execute("BEGIN")
    connection.execute(INSERT + ", ('other', x'02', 'tokyo')")
    (token,) = connection.execute("SELECT token FROM lrq_transmitted").fetchone()
    branch = connection.execute("SELECT branch FROM lrq_site").fetchone()[0]
    assert token == f"paris/other/{branch}/2"
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT * FROM lrq_transmit").fetchall() == []


def test_an_own_trigger_of_the_application_transmits(connect: Connect, reader: Reader) -> None:
    connection = connect()
    connection.execute(
        "CREATE TRIGGER send AFTER INSERT ON orders BEGIN "
        "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', CAST(NEW.id AS BLOB), 'tokyo'); END"
    )
    connection.executescript("INSERT INTO orders VALUES (1), (2); BEGIN; INSERT INTO orders VALUES (3); ROLLBACK")
    assert [row.payload for row in reader.drain()] == [b"1", b"2"]


def test_a_set_keeps_its_number_and_the_oldest_of_too_many_sets_is_forgotten(connect: Connect) -> None:
    connection = connect()
    every = "SELECT 'policy', x'', 'site' || i FROM n"
    connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4100) "
        f"INSERT INTO lrq_transmit (client, payload, destinations) {every}"
    )
    for given in ("b,a", "a,b,a", "a,b"):
        connection.execute(
            "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', x'', ?)", (given,)
        )
    kept = connection.execute("SELECT destinations, number FROM lrq_sql_sets ORDER BY id").fetchall()
    assert len(kept) == 4096
    assert len(set(kept[-3:])) == 1
    numbers = connection.execute("SELECT count(DISTINCT tag_set), count(*) FROM lrq_log_entries_0").fetchone()
    assert numbers == (4101, 4103)


def test_several_connections_write_at_once_and_lose_nothing(connect: Connect, reader: Reader) -> None:
    import threading

    def write(name: bytes) -> None:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
            for number in range(50):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(KEYED, (b"%s%d" % (name, number), f"{name!r}{number}"))
                connection.execute(KEYED, (b"", f"{name!r}{number}"))
                connection.execute("COMMIT")

    path = connect().execute("PRAGMA database_list").fetchone()[2]
    threads = [threading.Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = transactions(reader)
    assert {len(each) for each in found} == {2}
    for name in (b"a", b"b", b"c"):
        assert [each[0] for each in found if each[0][:1] == name] == [b"%s%d" % (name, n) for n in range(50)]


DEFAULTS = {"client": "policy", "payload": b"x", "destinations": "tokyo"}
ERRORS = [
    ({"client": "a b"}, "client is not a valid client name: use 1 to 64 letters", "LR001"),
    ({"client": "a\0"}, "client is not a valid client name", "LR001"),
    ({"client": None}, "client is not a valid client name", "LR001"),
    ({"destinations": "tokyo, lima"}, "destinations has an invalid site id: separate site ids by commas", "LR001"),
    ({"destinations": 'a"],["b'}, "destinations has an invalid site id", "LR001"),
    ({"destinations": "a,,b"}, "destinations has an invalid site id", "LR001"),
    ({"destinations": 7}, "destinations has an invalid site id", "LR001"),
    ({"destinations": ""}, "name at least one destination", "LR002"),
    ({"destinations": None}, "name at least one destination", "LR002"),
    ({"destinations": "tokyo,paris"}, "destinations names this site itself", "LR003"),
    ({"payload": bytes(16 * 1024 * 1024 + 1)}, "more bytes than the limit, which is 16777216: split it", "LR004"),
    ({"payload": None}, "the payload is NULL: give a blob, which may be empty", "LR005"),
    ({"payload": "text"}, "the payload must be a blob", "LR005"),
    ({"item_key": ""}, "item_key must be a text of 1 to 512 characters", "LR006"),
    ({"item_key": 7}, "item_key must be a text of 1 to 512 characters", "LR006"),
    ({"partition_key": "x" * 513}, "partition_key must be a text of 1 to 512 characters", "LR006"),
    ({"transaction_key": "a\0b"}, "transaction_key must be a text of 1 to 512 characters", "LR006"),
    ({"headers": "[]"}, "headers must be the text of a JSON object", "LR007"),
    ({"headers": "{"}, "headers must be the text of a JSON object", "LR007"),
    ({"headers": '{"a": 1}'}, "headers must be the text of a JSON object", "LR007"),
    ({"headers": '{"": "a"}'}, "the name of a header must have 1 to 128 characters", "LR007"),
    ({"headers": '{"a": "\\u0000"}'}, "a header has a NUL character", "LR007"),
    ({"headers": '{"a": "\\ud800"}'}, "a header has a character that is no Unicode text", "LR007"),
    ({"headers": f'{{"a": "{"x" * 8185}"}}'}, "the headers have more bytes as JSON than the limit", "LR007"),
    ({"headers": "{" + ",".join(f'"{n}": ""' for n in range(33)) + "}"}, "an entry has at most 32 headers", "LR007"),
]


def insert(connection: sqlite3.Connection, values: dict[str, object]) -> None:
    given = DEFAULTS | values
    marks = ", ".join("?" for _ in given)
    connection.execute(f"INSERT INTO lrq_transmit ({', '.join(given)}) VALUES ({marks})", tuple(given.values()))


@pytest.mark.parametrize(("wrong", "said", "code"), ERRORS)
def test_an_error_says_the_remedy_and_ends_with_its_code(
    connect: Connect, wrong: dict[str, object], said: str, code: str
) -> None:
    connection = connect()
    with pytest.raises(sqlite3.IntegrityError, match=said) as raised:
        insert(connection, wrong)
    assert str(raised.value).endswith(f"({code})")
    assert connection.execute("SELECT last_id FROM lrq_log_head").fetchone() == (0,)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_names_are_checked_in_a_file_with_another_encoding_too(tmp_path: Path, encoding: str) -> None:
    with closing(sqlite3.connect(tmp_path / "paris.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE orders (id INTEGER)")
        site = queues.create_engine(f"sqlite:///{tmp_path}/paris.db")
        queues.initialize(site, site_id="paris")
        site.dispose()
        for wrong in ("to kyo", "a/b", "tokyo\n", "e\u0301", "\u1100\u1161"):
            for column in ("client", "destinations"):
                with pytest.raises(sqlite3.IntegrityError, match=r"\(LR001\)$"):
                    insert(connection, {column: wrong})
        insert(connection, {"client": "été", "destinations": "東京,lima"})


@pytest.mark.parametrize("damaged", ["x'80'", "x'61c3'", "x'eda080'", "x'c080'", "x'f8888080'"])
def test_a_text_that_no_reader_could_decode_is_refused(connect: Connect, damaged: str) -> None:
    for column in ("item_key", "partition_key", "transaction_key", "client", "destinations"):
        others = {name: mark for name, mark in (("client", "'a'"), ("destinations", "'b'")) if name != column}
        with pytest.raises(sqlite3.IntegrityError, match=r"\(LR00[16]\)$"):
            connect().execute(
                f"INSERT INTO lrq_transmit (payload, {column}, {', '.join(others)}) "
                f"VALUES (x'', CAST({damaged} AS TEXT), {', '.join(others.values())})"
            )


def test_values_at_their_limits_are_accepted(connect: Connect, reader: Reader) -> None:
    connection = connect()
    insert(connection, {"payload": bytes(16 * 1024 * 1024), "item_key": "é" * 512})
    insert(connection, {"destinations": ",".join(f"{n}" + "é" * 60 for n in range(100))})
    insert(connection, {"headers": f'{{ "a": "{"x" * 8184}" }}'})
    insert(connection, {"headers": '{"b": "\\\\u0000", "a": "1", "a": "\\ud83d\\ude00"}'})
    found = connection.execute("SELECT headers FROM lrq_log_entries_0 ORDER BY id DESC LIMIT 1").fetchone()
    assert found == ('{"a":"😀","b":"\\\\u0000"}',)


def test_only_peers_are_accepted_while_the_server_asks_for_known_destinations(site: Engine, connect: Connect) -> None:
    connection = connect()
    insert(connection, {"destinations": "tokyo,tokio"})
    with site.begin() as writing:
        record_known(writing, KnownSites(frozenset({SiteId("tokyo")}), known_only=True))
    insert(connection, {"destinations": "tokyo"})
    with pytest.raises(sqlite3.IntegrityError, match=r"a destination is no peer of this site: correct .* \(LR003\)"):
        insert(connection, {"destinations": "tokyo,tokio"})


def test_tables_without_a_site_are_named_in_the_error(connect: Connect) -> None:
    connection = connect()
    connection.execute("DELETE FROM lrq_site")
    with pytest.raises(sqlite3.IntegrityError, match=r"belong to no site yet: run `lrq init` \(LR008\)"):
        insert(connection, {})
