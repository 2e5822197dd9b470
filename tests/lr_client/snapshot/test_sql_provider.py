"""`SqlSnapshotProvider` transmits the rows of its queries at the pinned cut, with bounded memory."""

import json
import threading
import tracemalloc

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

import lrq
from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.requests import SnapshotContext
from lr_client.snapshot.sql_provider import FETCHED_BYTES, FETCHED_ROWS, SqlSnapshotProvider, next_fetch
from lr_client.snapshot.sql_query import SqlQuery, SqlRow
from queues.database import leases
from queues.errors import UsageError
from queues.positions import Visibility
from tests.lr_client.snapshot.providing import by_id, newest, payloads_of, quick, ready, request, rows_of
from tests.queues.reading import Reader
from tests.waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def app(site: Engine) -> Engine:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE airports (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(text("INSERT INTO airports VALUES (1, 'Lima'), (2, 'Zürich'), (3, '50% \\:off')"))
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY)"))
    return site


def provided(engine: Engine, provider: object) -> str:
    """Serve one request with *provider*; return its sync id."""
    (sync_id,) = request(engine, "tokyo")
    with quick(engine, provider):
        ready(engine, sync_id)
    return sync_id


def failure(engine: Engine, provider: object) -> str:
    """Serve one request with *provider*, which fails; return the stored sentence."""
    request(engine, "tokyo")
    with quick(engine, provider, backoff=lambda _attempt: 3600.0):
        return eventually(lambda: newest(engine).error)


def test_the_facade_has_the_provider() -> None:
    assert lrq.SqlSnapshotProvider is SqlSnapshotProvider


def test_rows_are_json_by_default(app: Engine) -> None:
    sync_id = provided(app, SqlSnapshotProvider("SELECT id, name FROM airports ORDER BY id"))
    assert [json.loads(each) for each in payloads_of(app, sync_id)] == [
        {"id": 1, "name": "Lima"},
        {"id": 2, "name": "Zürich"},
        {"id": 3, "name": "50% :off"},
    ]


def test_an_application_encodes_rows_and_names_items(app: Engine) -> None:
    provider = SqlSnapshotProvider(
        "SELECT id, name FROM airports WHERE id < :most AND name <> '100%' AND name <> '\\:x' ORDER BY id",
        encode=lambda row: f"{row.id} {row['name']}".encode(),
        item_key="id",
        parameters={"most": 3},
    )
    rows = rows_of(app, provided(app, provider))
    assert [(row.payload, row.item_key) for row in rows] == [(b"1 Lima", "1"), ("2 Zürich".encode(), "2")]


def test_several_queries_have_their_own_forms(app: Engine) -> None:
    provider = SqlSnapshotProvider(
        SqlQuery("SELECT id FROM airports ORDER BY id", lambda row: b"a%d" % row.id, lambda row: f"airport/{row.id}"),
        "SELECT count(*) AS n FROM airports WHERE id > :least",
        parameters={"least": 1},
    )
    rows = rows_of(app, provided(app, provider))
    assert [row.payload for row in rows] == [b"a1", b"a2", b"a3", b'{"n":2}']
    assert [row.item_key for row in rows] == ["airport/1", "airport/2", "airport/3", None]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_no_snapshot_lacks_the_rows_of_a_table_that_was_emptied_after_the_cut(app: Engine) -> None:
    emptied: list[int] = []

    class Late(SqlSnapshotProvider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            if not emptied:
                with app.begin() as connection:
                    connection.execute(text("TRUNCATE airports"))
                    connection.execute(text("INSERT INTO airports VALUES (7, 'Quito')"))
                emptied.append(1)
            super().provide_full_state_data(context)

    sync_id = provided(app, Late("SELECT id FROM airports", encode=lambda row: b"%d" % row.id))
    assert payloads_of(app, sync_id) == [b"7"]
    assert by_id(app, sync_id).attempt == 2


def test_an_empty_table_makes_an_empty_snapshot(app: Engine) -> None:
    assert payloads_of(app, provided(app, SqlSnapshotProvider("SELECT * FROM rules"))) == []


def test_a_function_is_a_provider_too(app: Engine) -> None:
    def provide(context: SnapshotContext) -> None:
        with context.snapshot.connect() as connection:
            for number in connection.execute(text("SELECT id FROM airports ORDER BY id")).scalars():
                context.transmit(b"%d" % number)

    def complete(context: SnapshotContext) -> None:
        provide(context)
        context.mark_completed()

    for function in (provide, complete):
        assert payloads_of(app, provided(app, function)) == [b"1", b"2", b"3"]


def test_each_change_is_in_the_snapshot_or_in_the_log_after_it_under_constant_writing(app: Engine) -> None:
    client = RoutingQueueSenderClient("policy")
    stop = threading.Event()
    written = 3

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            written += 1
            with Session(app) as session, session.begin():
                session.execute(text("INSERT INTO airports VALUES (:id, 'x')"), {"id": written})
                client.transmit_log_entry_message(session, b"%d" % written, ["tokyo"])

    lease = leases.acquire(app, "server", "me", ttl=60)
    assert lease is not None
    log = Reader(app, lease)
    provider = SqlSnapshotProvider("SELECT id FROM airports", encode=lambda row: b"%d" % row.id)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        with quick(app, provider):
            for _ in range(4):
                (sync_id,) = request(app, "tokyo")
                base = ready(app, sync_id).base
                shown = list(map(int, payloads_of(app, sync_id)))
                log.drain()
                mark = Visibility.parse(base.cut)
                rows = [(g.tick.start_seq + n + 1, row) for g in log.groups for n, row in enumerate(g.rows or [])]
                later = [
                    int(row.payload) for seq, row in rows if seq > base.seq and not mark.covers(row.transaction, 0)
                ]
                everything = [1, 2, 3, *(int(row.payload) for _, row in rows)]
                assert sorted(shown + later) == sorted(everything)
    finally:
        stop.set()
        writer.join()


def peak_of_a_snapshot(app: Engine, rows: int) -> int:
    """Build a snapshot of the airports, which are *rows*; return the most memory that Python used, in bytes."""
    with quick(app, SqlSnapshotProvider("SELECT id, name FROM airports")):
        tracemalloc.start()
        (sync_id,) = request(app, "tokyo")
        ready(app, sync_id, timeout=60)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert by_id(app, sync_id).rows == rows
    return peak


def test_memory_does_not_grow_with_the_table(app: Engine) -> None:
    with app.begin() as connection:
        rows = [{"id": n, "name": "x" * 1000} for n in range(10, 20_010)]
        connection.execute(text("INSERT INTO airports VALUES (:id, :name)"), rows)
    del rows
    assert peak_of_a_snapshot(app, rows=20_003) < 12_000_000, "the table has 20 MB"


@pytest.mark.parametrize(
    ("rows", "size", "following"),
    [(4, 0, 16), (400, 400_000, FETCHED_ROWS), (4, FETCHED_BYTES, 4), (16, 2 * FETCHED_BYTES, 8), (1, 1 << 40, 1)],
    ids=["grows", "small", "stays", "shrinks", "one at least"],
)
def test_the_rows_of_a_fetch_follow_the_size_of_those_before(rows: int, size: int, following: int) -> None:
    assert next_fetch(rows, size) == following


def test_memory_does_not_grow_with_large_rows(app: Engine) -> None:
    with app.begin() as connection:
        for number in range(10, 50):
            connection.execute(
                text("INSERT INTO airports VALUES (:id, :name)"), {"id": number, "name": "x" * 2_000_000}
            )
    assert peak_of_a_snapshot(app, rows=43) < 50_000_000, "the table has 80 MB"


def test_the_first_rows_are_transmitted_before_the_last_ones_are_read(app: Engine, dialect: str) -> None:
    with app.begin() as connection:
        connection.execute(text("INSERT INTO rules VALUES (:id)"), [{"id": n} for n in range(3_000)])
    encoded: list[int] = []

    def encode(row: SqlRow) -> bytes:
        encoded.append(row.id)
        return b"x"

    # The value of the last row is an error of the database.
    last = "abs(id - 2999 - 9223372036854775807 - 1)" if dialect == "sqlite" else "1 / (2999 - id)"
    query = f"SELECT id, CASE WHEN id = 2999 THEN {last} END AS last FROM rules ORDER BY id"
    assert failure(app, SqlSnapshotProvider(query, encode=encode)).startswith("query 1 has failed (")
    assert len(encoded) >= 2_000


def test_progress_names_the_query_and_its_rows(app: Engine) -> None:
    provider = SqlSnapshotProvider("SELECT 1 AS a", "SELECT id FROM airports")
    sync_id = provided(app, provider)
    assert by_id(app, sync_id).progress == "query 2 of 2: 3 rows"


def test_a_cancelled_snapshot_ends_the_reading(app: Engine) -> None:
    begun, go_on = threading.Event(), threading.Event()
    encoded: list[int] = []

    def encode(row: SqlRow) -> bytes:
        encoded.append(row.id)
        begun.set()
        assert go_on.wait(30)
        return b"x"

    request(app, "tokyo")
    with quick(app, SqlSnapshotProvider("SELECT id FROM airports", encode=encode), lease_seconds=0.2) as transmitter:
        assert begun.wait(30)
        (second,) = request(app, "lima")
        with app.begin() as connection:
            connection.execute(text("UPDATE lrq_snapshots SET state = 'cancelled' WHERE destination = 'tokyo'"))
        (build,) = transmitter._running().values()
        eventually(lambda: build._cancel.is_set())
        assert encoded == encoded[:1]
        go_on.set()
        ready(app, second)
    assert len(encoded) == 1 + 3


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT id FROM nothing_here", "query 1 has failed ("),
        ("SELEC 1", "query 1 has failed ("),
        ("SELECT id AS a, name AS a FROM airports", "query 1 has two columns a: name one of them with AS"),
        ("DELETE FROM airports", "query 1 "),
        (SqlQuery("SELECT id FROM airports", item_key="code"), "the query has no column code for item_key: choose one"),
        (SqlQuery("SELECT NULL AS id", item_key="id"), "column id holds NoneType, and a key is a text"),
        (SqlQuery("SELECT id FROM airports", lambda row: row.code), "AttributeError: the query has no column code"),
        (SqlQuery("SELECT id FROM airports", lambda row: "text"), "the payload must be bytes, not str"),
    ],
)
def test_a_wrong_query_fails_the_attempt_with_one_sentence(app: Engine, query: str | SqlQuery, words: str) -> None:
    told = failure(app, SqlSnapshotProvider(query))
    assert told.startswith(words)
    assert "\n" not in told
    with app.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM airports")).scalar() == 3


def test_a_value_that_json_cannot_carry_fails_the_attempt(app: Engine) -> None:
    hexadecimal = "x'00'" if app.dialect.name == "sqlite" else "CAST('x' AS bytea)"
    told = failure(app, SqlSnapshotProvider(f"SELECT {hexadecimal} AS photo"))
    assert told.startswith("column photo holds bytes, for which JSON has no form")


def test_all_tables_are_locked_before_the_first_row(app: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("a copy of the database needs no lock")
    refused: list[str] = []

    def encode(row: SqlRow) -> bytes:
        with pytest.raises(Exception, match="lock timeout"), app.begin() as connection:  # noqa: PT012
            connection.execute(text("SET LOCAL lock_timeout = '100ms'"))
            connection.execute(text("TRUNCATE airports"))
        refused.append("TRUNCATE")
        return b"x"

    provider = SqlSnapshotProvider(SqlQuery("SELECT 1 AS a", encode), "SELECT id FROM airports")
    assert len(payloads_of(app, provided(app, provider))) == 4
    assert refused == ["TRUNCATE"]


async def later(row): ...


@pytest.mark.parametrize(
    ("queries", "options", "words"),
    [
        ([], {}, "has no query: write one"),
        ([" "], {}, "a query has no text"),
        ([select(1)], {}, "a query is Select: write SQL as a text, or a SqlQuery"),
        (["SELECT :a AS a"], {}, "the query names the parameter a: give parameters="),
        (["SELECT 1 AS a"], {"parameters": {"b": 1}}, "no query has the parameter b"),
        (["SELECT 1 AS a"], {"encode": later}, "encode is `async def`"),
        (["SELECT 1 AS a"], {"encode": lambda: b""}, r"encode has the parameters \(\): a call brings \(row\)"),
        (["SELECT 1 AS a"], {"item_key": lambda: ""}, "item_key has the parameters"),
        (["SELECT 1 AS a"], {"encode": "json"}, "encode is no function"),
    ],
)
def test_a_wrong_provider_is_refused_when_it_is_made(
    queries: list[object], options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        SqlSnapshotProvider(*queries, **options)  # type: ignore[arg-type]


def test_a_query_with_a_needless_parameter_is_refused() -> None:
    with pytest.raises(UsageError, match="the query has no parameter b"):
        SqlQuery("SELECT 1 AS a", parameters={"b": 1})


def test_another_function_is_refused_as_a_provider(app: Engine) -> None:
    for function, words in ((later, "is `async def`"), (lambda: None, r"a call brings \(context\)")):
        with pytest.raises(UsageError, match=words):
            quick(app, function)
