"""A cut keeps tables and views for later reads, also for a role that reads single columns."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from lr_client.snapshot.cut import open_cut

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

TABLE = "CREATE TABLE odd AS SELECT 1 AS id, 2 AS secret"


def run(site: Engine, *statements: str) -> None:
    with site.begin() as connection:
        connection.execute(text("SET LOCAL lock_timeout = '50ms'"))
        for statement in statements:
            connection.execute(text(statement))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("", "odd", "TRUNCATE odd"),
        ("CREATE MATERIALIZED VIEW seen AS SELECT id FROM odd", "seen", "REFRESH MATERIALIZED VIEW seen"),
        ("CREATE VIEW seen AS SELECT id FROM odd", "public.seen", "TRUNCATE odd"),
        ("CREATE TABLE seen (LIKE odd) PARTITION BY LIST (id)", "seen", "TRUNCATE seen"),
    ],
)
def test_a_kept_table_or_view_cannot_be_emptied_until_the_cut_is_closed(
    site: Engine, kind: str, name: str, change: str
) -> None:
    run(site, TABLE, *([kind] if kind else []))
    with open_cut(site) as cut:
        cut.keep(name)
        with pytest.raises(OperationalError, match="lock timeout"):
            run(site, change)
    run(site, change)


def test_a_table_is_kept_by_a_role_that_may_read_one_column(site: Engine) -> None:
    role = f"reader_of_{site.url.database}"
    run(site, TABLE)
    with open_cut(site) as cut:
        assert cut.holder is not None
        run(site, f"CREATE ROLE {role}", f"GRANT SELECT (id) ON odd TO {role}")
        try:
            cut.holder.execute(text(f"SET LOCAL ROLE {role}"))
            cut.keep("odd")
        finally:
            cut.close()
            run(site, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("limit", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_the_limits_of_the_database_do_not_end_a_slow_reader(site: Engine, limit: str) -> None:
    if limit == "transaction_timeout" and (site.dialect.server_version_info or ()) < (17,):
        pytest.skip("PostgreSQL has this limit from version 17 on")
    run(site, TABLE, f"ALTER DATABASE {site.url.database} SET {limit} = '60s'")
    site.dispose()
    with site.connect() as usual:
        assert usual.execute(text(f"SHOW {limit}")).scalar() == "1min"
    with open_cut(site) as cut, cut.connect() as connection:
        assert connection.execute(text(f"SHOW {limit}")).scalar() == "0"
