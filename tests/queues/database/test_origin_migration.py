"""The migration of `lrq_follow` keeps the rights on the function and the triggers of followed tables."""

import json

import pytest
from sqlalchemy import Engine, text

from tests.queues.reading import Reader
from tests.queues.send_log.test_sql_transmit_postgresql import role
from tests.queues.unordered import migrate_to

#: The roles that may call the function, `None` for the owner, and whether they may grant it.
RIGHTS = (
    "SELECT DISTINCT a.grantee = 0, a.grantee::regrole::text, a.is_grantable FROM pg_proc p, aclexplode(p.proacl) a "
    "WHERE p.oid = '{function}'::regprocedure AND a.grantee <> p.proowner ORDER BY 2"
)
BEFORE, AFTER = "lrq_follow(regclass,text,text[],text)", "lrq_follow(regclass,text,text[],text,text)"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_rights_of_roles_stay_up_and_down(site: Engine) -> None:
    def rights(function: str) -> list[tuple[bool, str, bool]]:
        with site.connect() as connection:
            return [tuple(row) for row in connection.execute(text(RIGHTS.format(function=function)))]  # type: ignore[misc]

    assert rights(AFTER) == []
    grants = [f"GRANT EXECUTE ON FUNCTION {AFTER} TO {{role}} WITH GRANT OPTION"]
    with role(site, *grants) as name:
        expected = [(False, name, True)]
        assert rights(AFTER) == expected
        migrate_to(site, "0031")
        assert rights(BEFORE) == expected
        migrate_to(site, "head")
        assert rights(AFTER) == expected
        with site.begin() as connection:
            connection.execute(text(f"REVOKE ALL ON FUNCTION {AFTER} FROM {name}"))
            connection.execute(text(f"GRANT EXECUTE ON FUNCTION {AFTER} TO PUBLIC"))
        migrate_to(site, "0031")
        assert [row[0] for row in rights(BEFORE)] == [True]
        migrate_to(site, "head")


def test_the_functions_are_the_same_after_a_cycle(site: Engine) -> None:
    def functions() -> list[str]:
        wanted = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'lrq_follow%' ORDER BY 1"
        with site.connect() as connection:
            return list(connection.execute(text(wanted)).scalars())

    after = functions()
    migrate_to(site, "0031")
    before = functions()
    migrate_to(site, "head")
    assert functions() == after
    migrate_to(site, "0031")
    assert functions() == before
    assert len({*before, *after}) == len(before) + 2


def test_a_table_followed_before_the_migration_is_followed_after_it(site: Engine, reader: Reader) -> None:
    def run(*statements: str) -> None:
        with site.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    migrate_to(site, "0031")
    run("CREATE TABLE orders (id int)", "SELECT lrq_follow('orders', client => 'c', destinations => ARRAY['north'])")
    migrate_to(site, "head")
    run("INSERT INTO orders VALUES (1)", "SET LOCAL lrq.origin = 'north'", "INSERT INTO orders VALUES (2)")
    run("SELECT lrq_follow('orders', client => 'c', destinations => ARRAY['north'], origin => 'other')")
    run("INSERT INTO orders VALUES (3)", "SET LOCAL lrq.origin = 'north'", "INSERT INTO orders VALUES (4)")
    migrate_to(site, "0031")
    run("INSERT INTO orders VALUES (5)", "SET LOCAL lrq.origin = 'north'", "INSERT INTO orders VALUES (6)")
    migrate_to(site, "head")
    assert [json.loads(row.payload)["row"]["id"] for row in reader.drain()] == [1, 2, 3, 5, 6]


def test_a_changed_function_is_refused_with_its_name(site: Engine) -> None:
    migrate_to(site, "0031")
    with site.begin() as connection:
        found = connection.execute(text(f"SELECT pg_get_functiondef('{BEFORE}'::regprocedure)")).scalar_one()
        connection.execute(text(found.replace("%s(%L, %L, ", "%s( %L, %L, ")))
    with pytest.raises(Exception, match="lrq_follow is not the function of lrq: restore it, then migrate again"):
        migrate_to(site, "head")
