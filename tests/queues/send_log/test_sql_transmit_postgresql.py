"""The function `lrq_transmit` works in every place where PostgreSQL runs SQL, and with no right on a table."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import DBAPIError

from lr_client import RoutingQueueSenderClient
from queues.names import SiteId
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_log.opening import watch_log
from queues.send_log.wakeup import Wakeup
from tests.queues.reading import Reader
from tests.queues.send_log.sql_calls import sql_transmit

CALL = "SELECT lrq_transmit('policy', '\\x01', ARRAY['tokyo'])"
MOST_BYTES = 16 * 1024 * 1024


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def plain(site: Engine, **options: bool) -> Iterator[psycopg.Connection]:
    """Connect as an application without lrq does."""
    url = make_url(site.url).set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(psycopg.connect(url, **options)) as connection:
        yield connection


@contextmanager
def role(site: Engine, *rights: str) -> Iterator[str]:
    """Make a role with *rights*, and drop the role afterwards, because roles belong to the whole server."""
    name = f"sender_{site.url.database}"
    with site.begin() as connection:
        for statement in (f"CREATE ROLE {name}", *(right.format(role=name) for right in rights)):
            connection.execute(text(statement))
    try:
        yield name
    finally:
        with site.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {name}"))
            connection.execute(text(f"DROP ROLE {name}"))


def payloads(reader: Reader) -> list[bytes]:
    return [row.payload for row in reader.drain()]


TRANSMIT_RIGHT = "GRANT EXECUTE ON FUNCTION lrq_transmit TO {role}"


def test_a_role_with_execute_alone_transmits_and_commits(site: Engine, reader: Reader) -> None:
    with role(site, TRANSMIT_RIGHT) as name, plain(site) as connection:
        connection.execute(f"SET ROLE {name}")
        connection.execute(CALL)
        connection.commit()
        for forbidden in ("SELECT * FROM lrq_log_entries", "SELECT lrq_take_place()", "SELECT lrq_check_headers('{}')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)
            connection.rollback()
    assert payloads(reader) == [b"\1"]


def test_a_role_without_execute_is_refused(site: Engine) -> None:
    with role(site) as name, plain(site) as connection:
        connection.execute(f"SET ROLE {name}")
        connection.commit()
        for call in (CALL, "SELECT lrq_follow('pg_class', 'c', ARRAY['a'])", "SELECT lrq_unfollow('pg_class', 'c')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function lrq_"):
                connection.execute(call)
            connection.rollback()


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_entries_are_written_at_every_isolation_level(site: Engine, reader: Reader, isolation: str) -> None:
    with plain(site) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        connection.execute(CALL)
        connection.commit()
    assert payloads(reader) == [b"\1"]


def test_a_read_only_transaction_is_refused(site: Engine) -> None:
    with plain(site) as connection:
        connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute(CALL)


def test_another_search_path_and_objects_of_the_same_names_change_nothing(site: Engine, reader: Reader) -> None:
    with plain(site) as connection:
        connection.execute("CREATE SCHEMA app; SET search_path = app, pg_temp, pg_catalog")
        connection.execute("CREATE TABLE app.lrq_log_entries (client text); CREATE TEMP TABLE lrq_site (site_id text)")
        connection.execute("CREATE FUNCTION app.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'")
        (token,) = connection.execute(CALL.replace("lrq_transmit", "public.lrq_transmit")).fetchone() or ("",)
        connection.commit()
    assert token.startswith("paris/policy/")
    assert payloads(reader) == [b"\1"]


def test_an_exception_block_undoes_only_its_own_entries(site: Engine, reader: Reader) -> None:
    block = """
        DO $$ BEGIN
          PERFORM lrq_transmit('policy', 'before', ARRAY['tokyo']);
          BEGIN
            PERFORM lrq_transmit('policy', 'undone', ARRAY['tokyo']);
            PERFORM 1 / 0;
          EXCEPTION WHEN division_by_zero THEN
            PERFORM lrq_transmit('policy', 'instead', ARRAY['tokyo']);
          END;
        END $$
    """
    with plain(site, autocommit=True) as connection:
        connection.execute(block)
    rows = reader.drain()
    assert [row.payload for row in rows] == [b"before", b"instead"]
    assert len({row.transaction for row in rows}) == 1


def test_one_statement_transmits_many_entries_in_order(site: Engine, reader: Reader) -> None:
    with plain(site, autocommit=True) as connection:
        connection.execute(
            "SELECT lrq_transmit('policy', n::text::bytea, ARRAY['tokyo']) FROM generate_series(1, 100) AS n"
        )
    rows = reader.drain()
    assert [int(row.payload) for row in rows] == list(range(1, 101))
    assert len({row.transaction for row in rows}) == 1


def test_a_trigger_of_the_application_transmits_for_a_role_with_rights_on_its_table_only(
    site: Engine, reader: Reader
) -> None:
    with plain(site) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        connection.execute(
            "CREATE FUNCTION send() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
            "PERFORM lrq_transmit('policy', NEW.id::text::bytea, ARRAY['tokyo']); RETURN NULL; END $$"
        )
        connection.execute("CREATE TRIGGER send AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION send()")
        connection.commit()
    with role(site, "GRANT INSERT ON orders TO {role}") as name, plain(site) as connection:
        connection.execute(f"SET ROLE {name}")
        connection.execute("INSERT INTO orders VALUES (1), (2)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (3)")
        connection.rollback()
    assert payloads(reader) == [b"1", b"2"]


@pytest.mark.long
def test_a_commit_from_sql_wakes_an_idle_server(site: Engine) -> None:
    with closing(watch_log(site)) as watch, closing(Wakeup("branch of this test")) as wakeup:
        assert watch.wait_for_notify()
        while watch.changed():
            pass
        with plain(site, autocommit=True) as connection:
            connection.execute(CALL)
        assert wakeup.wait(30.0, *watch.notifiers)


ERRORS = [
    ("LR001", {"client": "a b"}, "'a b' is not a valid client name: use 1 to 64 letters"),
    ("LR001", {"client": None}, "NULL is not a valid client name"),
    ("LR001", {"destinations": ["tokyo", "a\nb"]}, r"'a\?b' is not a valid site id"),
    ("LR002", {"destinations": []}, "name at least one destination"),
    ("LR003", {"destinations": ["tokyo", "paris"]}, "'paris' is this site itself"),
    ("LR004", {"payload": bytes(MOST_BYTES + 1)}, "the payload has 16777217 bytes, the limit is 16777216: split it"),
    ("LR005", {"payload": None}, "the payload is NULL: give bytes, which may be empty"),
    ("LR006", {"item_key": ""}, "item_key must have 1 to 512 characters, not 0"),
    ("LR006", {"partition_key": "x" * 513}, "partition_key must have 1 to 512 characters, not 513"),
    ("LR007", {"headers": ["a"]}, "headers must be a JSON object of names and texts, not array"),
    ("LR007", {"headers": {"a": 1}}, "the header 'a' must be a string, not number"),
    ("LR007", {"headers": {"a" * 129: "1"}}, "the name of a header must have 1 to 128 characters"),
    ("LR007", {"headers": {f"{n}": "" for n in range(33)}}, "an entry has at most 32 headers, not 33"),
    ("LR007", {"headers": {"a": "x" * 8185}}, "the headers have 8193 bytes as JSON, the limit is 8192: shorten them"),
]


@pytest.mark.parametrize(("code", "wrong", "said"), ERRORS)
def test_an_error_has_its_code_and_says_the_remedy(
    site: Engine, code: str, wrong: dict[str, object], said: str
) -> None:
    values: dict[str, object] = {"payload": b"x", "destinations": ["tokyo"]} | wrong
    with site.connect() as connection, pytest.raises(DBAPIError, match=said) as raised:
        sql_transmit(connection, **values)
    assert getattr(raised.value.orig, "sqlstate", "") == code


def test_values_at_their_limits_are_accepted(site: Engine) -> None:
    with site.begin() as connection:
        sql_transmit(connection, bytes(MOST_BYTES), ["tokyo"], item_key="é" * 512, headers={"a": "x" * 8184})
        sql_transmit(connection, b"", ["é" * 64], headers={"n" * 128: ""} | {f"{n}": "" for n in range(31)})


def test_only_peers_are_accepted_while_the_server_asks_for_known_destinations(site: Engine) -> None:
    with site.begin() as connection:
        record_known(connection, KnownSites(frozenset({SiteId("tokyo")}), known_only=True))
        sql_transmit(connection, b"x", ["tokyo"])
    said = "no peer of 'paris' is named 'tokio': correct the name, or add the site to `peers`"
    with site.connect() as connection, pytest.raises(DBAPIError, match=said) as raised:
        sql_transmit(connection, b"x", ["tokyo", "tokio"])
    assert getattr(raised.value.orig, "sqlstate", "") == "LR003"


def test_tables_without_a_site_are_named_in_the_error(site: Engine) -> None:
    with site.connect() as connection:
        connection.execute(text("DELETE FROM lrq_site"))
        with pytest.raises(DBAPIError, match="they belong to no site yet: run `lrq init`"):
            sql_transmit(connection, b"x", ["tokyo"])


def test_a_token_names_the_timeline_of_a_promotion_as_python_does(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("UPDATE lrq_branches SET incarnation = '1/000000ff/2'"))
        python = RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"x", ["tokyo"])
        assert sql_transmit(connection, b"x", ["tokyo"]) == str(python)
        assert python.timeline == "00000001"
