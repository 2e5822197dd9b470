"""`lrq_table` reads partitions, and tables that inherit, by several tasks: each row once, as at the cut."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from lr_client.snapshot.cut import Cut, open_cut
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from lr_client.spark.snapshot.table_format import TableReader, TableShare
from queues.errors import SnapshotFailedError
from tests.lr_client.snapshot.providing import ready, request, rows_of
from tests.lr_client.spark.sources.taking import url_of

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

#: The rows of `days`, 10 in a block: 1 to 400 in `early`, which is divided again, and 401 to 800 in `Late`.
ROWS = 800
PARTITIONED = (
    "CREATE TABLE days (day INT, words TEXT) PARTITION BY RANGE (day)",
    "CREATE TABLE early PARTITION OF days FOR VALUES FROM (0) TO (401) PARTITION BY RANGE (day)",
    "CREATE TABLE early_one PARTITION OF early FOR VALUES FROM (0) TO (101)",
    # Another order of the columns, and a column that is gone.
    "CREATE TABLE early_two (gone INT, words TEXT, day INT)",
    "ALTER TABLE early_two DROP COLUMN gone",
    "ALTER TABLE early ATTACH PARTITION early_two FOR VALUES FROM (101) TO (401)",
    "CREATE SCHEMA other",
    'CREATE TABLE other."Late" PARTITION OF days FOR VALUES FROM (401) TO (801)',
    "CREATE TABLE bare PARTITION OF days FOR VALUES FROM (801) TO (900)",
    f"INSERT INTO days SELECT n, repeat('x', 700) FROM generate_series(1, {ROWS}) n",
    "CREATE TABLE apart (day INT, words TEXT)",
    "INSERT INTO apart VALUES (901, 'apart')",
)
#: `lines` has no row of its own; `two_lines` inherits by two ways.
INHERITED = (
    "CREATE TABLE lines (day INT, words TEXT)",
    "CREATE TABLE left_lines (sign TEXT) INHERITS (lines)",
    "CREATE TABLE right_lines () INHERITS (lines)",
    "CREATE TABLE two_lines () INHERITS (left_lines, right_lines)",
    "INSERT INTO left_lines SELECT n, repeat('x', 700), 'l' FROM generate_series(1, 500) n",
    "INSERT INTO right_lines SELECT n, repeat('x', 700) FROM generate_series(501, 700) n",
    f"INSERT INTO two_lines SELECT n, repeat('x', 700), 'b' FROM generate_series(701, {ROWS}) n",
    "CREATE TABLE apart (day INT, words TEXT)",
    "INSERT INTO apart VALUES (901, 'apart')",
)


def run(site: Engine, *statements: str) -> None:
    """Run each of *statements* as a transaction of its own."""
    with site.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))


def reader_of(site: Engine, cut: Cut, table: str, partitions: int = 4, url: str | None = None) -> TableReader:
    options = {"url": url or url_of(site), "cut": str(cut), "table": table, "partitions": str(partitions)}
    return TableReader(options)


def days_by_task(reader: TableReader) -> list[list[int]]:
    """Return the days that each task reads."""
    return [[row["day"] for batch in reader.read(share) for row in batch.to_pylist()] for share in reader.partitions()]


def assert_as_at_the_cut(by_task: list[list[int]], tasks: int = 4) -> None:
    assert sorted(day for days in by_task for day in days) == list(range(1, ROWS + 1))
    assert len(by_task) == tasks
    assert max(map(len, by_task)) - min(map(len, by_task)) < 50


@pytest.mark.parametrize("table", ["days", "lines"])
@pytest.mark.parametrize("tasks", [1, 3, 4, 7])
def test_each_row_is_read_once_and_all_tasks_read_about_equally_many(site: Engine, table: str, tasks: int) -> None:
    run(site, *(PARTITIONED if table == "days" else INHERITED), f"ANALYZE {table}")
    with open_cut(site) as cut:
        reader = reader_of(site, cut, table, tasks)
        assert_as_at_the_cut(days_by_task(reader), tasks)


def test_an_estimate_counts_the_rows_of_all_partitions(site: Engine) -> None:
    run(site, *PARTITIONED, "ANALYZE early_one", "ANALYZE early_two", 'ANALYZE other."Late"')
    with open_cut(site) as cut:
        assert reader_of(site, cut, "days").estimated_rows == ROWS


HARMLESS = {
    "days": [
        ["ALTER TABLE days ATTACH PARTITION apart FOR VALUES FROM (901) TO (902)"],
        ['ALTER TABLE days DETACH PARTITION other."Late"'],
        ['ALTER TABLE days DETACH PARTITION other."Late" CONCURRENTLY'],
        ["ALTER TABLE days DETACH PARTITION early", "CREATE TABLE early_three (LIKE early)"],
        ["CREATE TABLE later PARTITION OF days FOR VALUES FROM (900) TO (1000)", "INSERT INTO days VALUES (901, 'x')"],
        ["UPDATE days SET day = day + 400 WHERE day BETWEEN 50 AND 400", "DELETE FROM days WHERE day < 50"],
        ["INSERT INTO days SELECT 850, repeat('y', 700) FROM generate_series(1, 300)"],
    ],
    "lines": [
        ["ALTER TABLE left_lines NO INHERIT lines"],
        ["ALTER TABLE apart INHERIT lines"],
        ["CREATE TABLE more_lines () INHERITS (lines)", "INSERT INTO more_lines VALUES (901, 'x')"],
        ["UPDATE lines SET words = 'changed'", "INSERT INTO lines VALUES (901, 'x')"],
    ],
}


@pytest.mark.parametrize(("table", "changes"), [(table, each) for table in HARMLESS for each in HARMLESS[table]])
@pytest.mark.parametrize("is_planned", [False, True], ids=["before the plan", "after the plan"])
def test_rows_are_as_at_the_cut_though_partitions_come_and_go(
    site: Engine, table: str, changes: list[str], *, is_planned: bool
) -> None:
    run(site, *(PARTITIONED if table == "days" else INHERITED))
    with open_cut(site) as cut:
        reader = reader_of(site, cut, table) if is_planned else None
        run(site, *changes)
        by_task = days_by_task(reader or reader_of(site, cut, table))
    assert sorted(day for days in by_task for day in days) == list(range(1, ROWS + 1))


HARMFUL = {
    "days": [
        ['DROP TABLE other."Late"'],
        ["DROP TABLE bare"],
        ["DROP TABLE early"],
        ["TRUNCATE early_two"],
        ["TRUNCATE bare"],
        ['ALTER TABLE other."Late" RENAME TO late'],
        ['ALTER TABLE days DETACH PARTITION other."Late"', 'TRUNCATE other."Late"'],
        ["ALTER TABLE early DETACH PARTITION early_one", "DROP TABLE early_one", "CREATE TABLE early_one (LIKE days)"],
        ["ALTER TABLE early_one RENAME TO one", "ALTER TABLE early_two RENAME TO early_one"],
        ["DROP TABLE days", *PARTITIONED[:2]],
    ],
    "public.days": [["DROP TABLE days", *PARTITIONED[:2]]],
    "lines": [
        ["DROP TABLE two_lines"],
        ["TRUNCATE ONLY right_lines"],
        [
            "ALTER TABLE two_lines NO INHERIT left_lines",
            "ALTER TABLE two_lines NO INHERIT right_lines",
            "DROP TABLE two_lines",
        ],
    ],
}
SENTENCES = (
    "got or lost a partition with rows after the cut: the next attempt",
    "was emptied, rewritten or replaced after the cut",
    "cannot be read as at the cut (UndefinedTable: ",
    "there is no table ",
)


@pytest.mark.parametrize(("table", "changes"), [(table, each) for table in HARMFUL for each in HARMFUL[table]])
@pytest.mark.parametrize("is_planned", [False, True], ids=["before the plan", "after the plan"])
def test_rows_that_are_gone_are_reported_in_one_sentence(
    site: Engine, table: str, changes: list[str], *, is_planned: bool
) -> None:
    run(site, *(PARTITIONED if table.endswith("days") else INHERITED))
    with open_cut(site) as cut:
        reader = reader_of(site, cut, table) if is_planned else None
        run(site, *changes)
        with pytest.raises(SnapshotFailedError) as told:
            days_by_task(reader or reader_of(site, cut, table))
    assert any(sentence in str(told.value) for sentence in SENTENCES)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("table", "change"), [("days", 'DROP TABLE other."Late"'), ("lines", "DROP TABLE two_lines")])
def test_a_dropped_partition_is_told_before_a_row_is_read(site: Engine, table: str, change: str) -> None:
    run(site, *(PARTITIONED if table == "days" else INHERITED))
    with open_cut(site) as cut:
        run(site, change)
        with pytest.raises(SnapshotFailedError, match=f"the table {table} got or lost a partition"):
            reader_of(site, cut, table)


def test_a_partition_whose_detachment_has_not_ended_is_no_partition(site: Engine) -> None:
    run(site, *PARTITIONED)
    hasty = create_engine(site.url, poolclass=NullPool)
    with site.connect() as other:
        other.execute(text("SELECT FROM days LIMIT 0"))
        with pytest.raises(OperationalError, match="statement timeout"):
            run(hasty, "SET statement_timeout = '500ms'", 'ALTER TABLE days DETACH PARTITION other."Late" CONCURRENTLY')
    with open_cut(site) as cut:
        by_task = days_by_task(reader_of(site, cut, "days"))
        with cut.connect() as reading:
            by_name = list(reading.execute(text("SELECT day FROM days")).scalars())
    assert sorted(by_name) == sorted(day for days in by_task for day in days) == list(range(1, 401))


def test_a_partitioned_table_without_partitions_or_rows_is_empty(site: Engine) -> None:
    run(site, *PARTITIONED[:2], "CREATE TABLE months (day INT) PARTITION BY LIST (day)")
    run(site, "CREATE TABLE early_one PARTITION OF early FOR VALUES FROM (0) TO (101)")
    with open_cut(site) as cut:
        assert days_by_task(reader_of(site, cut, "months")) == [[]]
        assert days_by_task(reader_of(site, cut, "days")) == [[]]


def test_a_temporary_table_of_another_session_that_inherits_is_left_out(site: Engine) -> None:
    run(site, *INHERITED)
    with site.connect() as other:
        other.execute(text("SET temp_buffers = '800kB'"))
        other.execute(text("CREATE TEMPORARY TABLE passing () INHERITS (lines)"))
        other.execute(text("INSERT INTO passing SELECT 901, repeat('x', 700) FROM generate_series(1, 2000)"))
        other.commit()
        with open_cut(site) as cut:
            assert_as_at_the_cut(days_by_task(reader_of(site, cut, "lines")))


@contextmanager
def role(site: Engine, *grants: str) -> Iterator[str]:
    """Make a role with *grants*, in which `{}` stands for the role; yield its URL."""
    name = f"reader_of_{site.url.database}"
    run(site, f"CREATE ROLE {name} LOGIN", *(grant.format(name) for grant in grants))
    try:
        yield site.url.set(username=name).render_as_string(hide_password=False)
    finally:
        run(site, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


ON_ALL = ("GRANT USAGE ON SCHEMA other TO {}", "GRANT SELECT ON ALL TABLES IN SCHEMA public, other TO {}")


@pytest.mark.parametrize(
    ("grants", "tasks"),
    [
        (ON_ALL, 4),
        (("GRANT SELECT ON days TO {}",), 1),
        (("GRANT SELECT (day, words) ON days TO {}",), 1),
        ((*ON_ALL, "REVOKE SELECT ON early_one FROM {}"), 1),
        ((*ON_ALL, "REVOKE USAGE ON SCHEMA other FROM {}"), 1),
        ((*ON_ALL, "ALTER TABLE early_one ENABLE ROW LEVEL SECURITY"), 1),
    ],
)
def test_a_role_that_may_read_the_partitioned_table_only_reads_it_by_one_task(
    site: Engine, grants: tuple[str, ...], tasks: int
) -> None:
    run(site, *PARTITIONED)
    with role(site, *grants) as url, open_cut(site) as cut:
        assert_as_at_the_cut(days_by_task(reader_of(site, cut, "days", url=url)), tasks)


def test_policies_of_the_partitioned_table_are_not_passed_by(site: Engine) -> None:
    run(site, *PARTITIONED, "ALTER TABLE days ENABLE ROW LEVEL SECURITY")
    with role(site, *ON_ALL) as url, open_cut(site) as cut, pytest.raises(SnapshotFailedError, match="row-level"):
        days_by_task(reader_of(site, cut, "days", url=url))


def test_a_role_that_reads_single_columns_reads_a_large_table(site: Engine) -> None:
    run(site, *PARTITIONED)
    with role(site, 'GRANT SELECT (day, words) ON other."Late" TO {}', ON_ALL[0]) as url, open_cut(site) as cut:
        (days,) = days_by_task(reader_of(site, cut, "other.Late", url=url))
    assert sorted(days) == list(range(401, ROWS + 1))


def test_a_table_that_inherits_and_may_not_be_read_is_named(site: Engine) -> None:
    run(site, *INHERITED)
    with (
        role(site, "GRANT SELECT ON lines, left_lines, right_lines TO {}") as url,
        open_cut(site) as cut,
        pytest.raises(SnapshotFailedError, match=r"the table public\.two_lines cannot be read as at the cut"),
    ):
        days_by_task(reader_of(site, cut, "lines", url=url))


def test_chunks_of_timescaledb_are_read_by_the_name_of_their_table(site: Engine) -> None:
    run(
        site,
        *INHERITED,
        "SET allow_system_table_mods = on",
        "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)"
        " SELECT 99999, 'timescaledb', extowner, extnamespace, FALSE, '2' FROM pg_extension WHERE extname = 'plpgsql'",
    )
    with open_cut(site) as cut:
        assert_as_at_the_cut(days_by_task(reader_of(site, cut, "lines")), 1)
        shares = [cast("TableShare", share).pieces for share in reader_of(site, cut, "right_lines").partitions()]
    assert {piece.table.only for share in shares for piece in share} == {False}


FOREIGN = (
    *PARTITIONED[:7],
    'CREATE TABLE other."Late" PARTITION OF days FOR VALUES FROM (401) TO (701)',
    "CREATE FOREIGN TABLE far PARTITION OF days FOR VALUES FROM (701) TO (801) SERVER far {}",
    "INSERT INTO days SELECT n, repeat('x', 700) FROM generate_series(1, 700) n",
)


def test_a_foreign_partition_is_one_piece_and_the_others_are_divided(site: Engine) -> None:
    run(site, "CREATE FOREIGN DATA WRAPPER far", "CREATE SERVER far FOREIGN DATA WRAPPER far")
    run(site, *(statement.format("") for statement in FOREIGN))
    with open_cut(site) as cut:
        shares = [cast("TableShare", share).pieces for share in reader_of(site, cut, "days").partitions()]
    assert [(piece.low, piece.high) for share in shares for piece in share if piece.table.name == "far"] == [
        (None, None)
    ]
    assert len(shares) == 4


def test_rows_of_a_foreign_partition_are_read_once(site: Engine) -> None:
    with site.connect() as connection:
        if not connection.execute(text("SELECT FROM pg_available_extensions WHERE name = 'file_fdw'")).all():
            pytest.skip("this PostgreSQL has no file_fdw")
    run(site, "CREATE EXTENSION file_fdw", "CREATE SERVER far FOREIGN DATA WRAPPER file_fdw")
    rows = "OPTIONS (program 'seq -f %g,x 701 800', format 'csv')"
    run(site, *(statement.format(rows) for statement in FOREIGN))
    with open_cut(site) as cut:
        by_task = days_by_task(reader_of(site, cut, "days"))
    assert sorted(day for days in by_task for day in days) == list(range(1, ROWS + 1))
    assert len(by_task) == 4
    assert sum(bool({701, 800} & set(days)) for days in by_task) == 1


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("table", "changes", "refused"),
    [
        (
            "days",
            [*HARMLESS["days"][0], *HARMLESS["days"][1], "UPDATE days SET day = 150 WHERE day < 20"],
            "DROP TABLE early_one",
        ),
        ("lines", [*HARMLESS["lines"][0], *HARMLESS["lines"][1]], "TRUNCATE two_lines"),
    ],
)
def test_tasks_of_spark_share_the_rows_of_all_partitions_as_at_the_cut(
    site: Engine, spark: Any, table: str, changes: list[str], refused: str
) -> None:
    by_task: list[int] = []

    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        run(site, *changes)
        rows = context.read_table(table, partitions=4)
        with pytest.raises(OperationalError, match="lock timeout"):
            run(site, f"SET lock_timeout = '50ms'; {refused}")
        counts = rows.selectExpr("spark_partition_id() task").groupBy("task").count()
        by_task.extend(row["count"] for row in counts.orderBy("task").collect())
        return rows.selectExpr("cast(words as binary) payload", "cast(day as string) item_key")

    run(site, *(PARTITIONED if table == "days" else INHERITED))
    (sync_id,) = request(site, "tokyo")
    provider = SparkSnapshotProvider(spark, build)
    with SnapshotTransmitter(site, "policy", provider, poll_interval=0.02, backoff=lambda _attempt: 3600.0):
        ready(site, sync_id, timeout=120.0)
    assert sorted(int(row.item_key or "") for row in rows_of(site, sync_id)) == list(range(1, ROWS + 1))
    print(f"rows of {table} by task: {by_task}")
    assert (len(by_task), sum(by_task)) == (4, ROWS)
    assert max(by_task) - min(by_task) < 50
