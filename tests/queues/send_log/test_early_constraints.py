"""A transaction takes its place at its real commit, also after SET CONSTRAINTS has fired the trigger before."""

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from queues.database import leases, migrations
from queues.errors import SchemaMismatchError
from tests.clusters import cluster, site_of
from tests.queues.reading import Reader
from tests.queues.unordered import migrate_to

ENTRY = "INSERT INTO lrq_log_entries (slot, client, tag_set, created_us, payload) VALUES (0, 'policy', 1, 0, 'A')"
NOW = "SET CONSTRAINTS ALL IMMEDIATE"
LATER = "SET CONSTRAINTS ALL DEFERRED"
#: Statements of one transaction; each item is one message.
SCRIPTS = {
    "all at once": [ENTRY, NOW],
    "before the first entry": [NOW, ENTRY],
    "before and after": [NOW, ENTRY, NOW],
    "twice": [ENTRY, NOW, NOW],
    "two in one message": [ENTRY, f"{NOW}; {NOW}"],
    "all in one message": [f"{NOW}; {ENTRY}; {NOW}; {ENTRY}; {NOW}"],
    "within a function": [ENTRY, f"DO $$ BEGIN {NOW}; {NOW}; {ENTRY}; {NOW}; END $$"],
    "as Django checks constraints": [ENTRY, NOW, LATER],
    "by its name": [ENTRY, "SET CONSTRAINTS lrq_sequence_commit IMMEDIATE"],
    "more entries": [ENTRY, NOW, ENTRY, ENTRY, NOW, ENTRY],
    "a released savepoint": ["SAVEPOINT s", ENTRY, NOW, "RELEASE s"],
    "a savepoint undone": [ENTRY, "SAVEPOINT s", NOW, ENTRY, "ROLLBACK TO s"],
    "a second firing undone": [ENTRY, NOW, "SAVEPOINT s", NOW, "ROLLBACK TO s"],
    "savepoints in each other": [ENTRY, "SAVEPOINT a", NOW, "SAVEPOINT b", NOW, "RELEASE b", "ROLLBACK TO a", NOW],
    "settings reset": [ENTRY, NOW, "RESET ALL", ENTRY, NOW],
    "settings reset last": [ENTRY, NOW, "RESET ALL"],
    "a replica": ["SET LOCAL session_replication_role = replica", ENTRY, NOW],
}  # fmt: skip
ENDS = {"commit": "COMMIT", "prepare": "PREPARE TRANSACTION 'A'"}

pytestmark = pytest.mark.postgresql


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def preparing() -> Iterator[Engine]:
    """Give a site whose server allows prepared transactions."""
    with cluster(max_prepared_transactions="10") as made:
        engine = site_of(made, "paris")
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE app (value text)"))
            connection.execute(text("INSERT INTO app VALUES ('')"))
        yield engine
        engine.dispose()


def send(connection: Connection | Session, payload: bytes) -> None:
    RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, payload, ["tokyo"])


def run(engine: Engine, script: list[str], last: str) -> tuple[int, int]:
    """Run a transaction, and another one ahead of its end; return their ids."""
    raw = engine.raw_connection()
    try:
        raw.driver_connection.autocommit = True
        cursor = raw.cursor()
        cursor.execute("BEGIN")
        for message in script:
            cursor.execute(message)
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        ((xid,),) = cursor.fetchall()
        cursor.execute("SELECT count(*) FROM lrq_log_commits WHERE xid = %s", (xid,))
        assert cursor.fetchall() == [(0,)], "a place before the commit"
        between = write_between(engine)
        cursor.execute("UPDATE app SET value = 'A'")
        cursor.execute(last)
        if last.startswith("PREPARE"):
            cursor.execute("COMMIT PREPARED 'A'")
    finally:
        raw.driver_connection.autocommit = False
        raw.close()
    return int(xid), between


def write_between(engine: Engine) -> int:
    """Commit another transaction that changes the row which the first one changes later; return its id."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE app SET value = 'B'"))
        return int(connection.execute(text(f"{ENTRY} RETURNING xid")).scalar_one())


def places(engine: Engine, *transactions: int) -> list[int]:
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT xid FROM lrq_log_commits WHERE xid = ANY(:xids) ORDER BY commit_seq"),
            {"xids": list(transactions)},
        )
        return list(found.scalars())


def assert_nothing_waits(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_waiting_places")).scalar_one() == 0


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_place_is_that_of_the_real_commit(preparing: Engine, script: str, end: str) -> None:
    xid, between = run(preparing, SCRIPTS[script], ENDS[end])
    assert places(preparing, xid, between) == [between, xid]
    assert_nothing_waits(preparing)


def test_any_mixture_of_entries_savepoints_and_constraints_takes_one_place_at_the_commit(
    preparing: Engine, chance: random.Random
) -> None:
    for _ in range(60):
        script, depth = [ENTRY], 0
        for _ in range(chance.randrange(12)):
            step = chance.choice([ENTRY, NOW, NOW, LATER, "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s"])
            if step.endswith(" s") and not step.startswith("SAVE") and not depth:
                continue
            depth += {"SAVEPOINT s": 1, "RELEASE s": -1}.get(step, 0)
            script.append(step)
        xid, between = run(preparing, script, chance.choice([*ENDS.values()]))
        assert places(preparing, xid, between) == [between, xid], script
    assert_nothing_waits(preparing)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_transaction_that_rolls_back_after_an_early_firing_leaves_nothing(preparing: Engine, script: str) -> None:
    xid, between = run(preparing, SCRIPTS[script], "ROLLBACK")
    assert places(preparing, xid, between) == [between]
    assert_nothing_waits(preparing)


def test_a_statement_that_commits_itself_takes_one_place(preparing: Engine) -> None:
    with preparing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        xid = connection.execute(text(f"{ENTRY} RETURNING xid")).scalar_one()
        both = connection.execute(text(f"WITH e AS ({ENTRY} RETURNING xid) SELECT xid FROM e")).scalar_one()
    assert places(preparing, xid, both) == [xid, both]
    assert_nothing_waits(preparing)


def test_a_role_that_may_only_transmit_needs_no_further_privilege(preparing: Engine) -> None:
    with preparing.begin() as connection:
        connection.execute(text("CREATE ROLE sender"))
        connection.execute(text("GRANT SELECT, INSERT, DELETE ON lrq_log_entries, lrq_log_commits TO sender"))
        connection.execute(text("GRANT SELECT, UPDATE ON lrq_commit_seq, lrq_log_segment TO sender"))
    with preparing.begin() as connection:
        connection.execute(text("SET LOCAL ROLE sender"))
        connection.execute(text(NOW))
        xid = connection.execute(text(f"{ENTRY} RETURNING xid")).scalar_one()
        connection.execute(text(NOW))
    assert places(preparing, xid) == [xid]


@pytest.mark.parametrize("check", [(NOW,), (NOW, LATER)], ids=["immediate", "as Django"])
def test_the_last_value_that_arrives_is_the_value_of_the_source(
    site: Engine, reader: Reader, check: tuple[str]
) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE app (value text)"))
        connection.execute(text("INSERT INTO app VALUES ('')"))
    with Session(site) as early, Session(site) as late:
        send(early, b"x=A")
        for statement in check:
            early.execute(text(statement))
        send(late, b"x=B")
        late.execute(text("UPDATE app SET value = 'B'"))
        late.commit()
        early.execute(text("UPDATE app SET value = 'A'"))
        early.commit()
    assert [row.payload for row in reader.drain()] == [b"x=B", b"x=A"]


def test_check_notices_a_helper_trigger_that_does_not_fire_always(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_waiting_places DISABLE TRIGGER ALL"))
    with pytest.raises(SchemaMismatchError, match=r"lrq_sequence_commit, firing ALWAYS, on lrq_waiting_places"):
        migrations.check(site)


def test_a_transaction_that_begins_before_the_upgrade_and_one_after_the_downgrade_keep_their_places(
    site: Engine,
) -> None:
    migrate_to(site, "0003")
    with site.connect() as connection:
        first = connection.execute(text(f"{ENTRY} RETURNING xid")).scalar_one()
        connection.execute(text(NOW))  # the earlier trigger takes the place here
        connection.commit()
    migrate_to(site, "0006")
    migrate_to(site, "0003")
    with site.begin() as connection:
        second = connection.execute(text(f"{ENTRY} RETURNING xid")).scalar_one()
    assert places(site, first, second) == [first, second]
    assert leases.acquire(site, "any", "me", ttl=60) is not None


def test_a_deferred_trigger_that_writes_an_entry_and_checks_constraints_takes_no_place_early(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE app (value text)"))
        connection.execute(text("CREATE TABLE after_check (commit_seq bigint)"))
        # `exec_driver_sql`, because SQLAlchemy reads a colon as the beginning of a name.
        connection.exec_driver_sql(
            f"CREATE FUNCTION check_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {ENTRY}; {NOW}; "
            "INSERT INTO after_check VALUES (nextval('lrq_commit_seq')); RETURN NULL; END $$"
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER check_all AFTER INSERT ON app DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION check_all()"
            )
        )
    with site.begin() as connection:
        connection.execute(text("INSERT INTO app VALUES ('A')"))
    with site.connect() as connection:
        late = text("SELECT c.commit_seq > a.commit_seq FROM lrq_log_commits c, after_check a")
        assert connection.execute(late).scalars().all() == [True]
