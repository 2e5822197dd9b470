"""The views of links and their lag, read with plain SQL, as psql and dashboards do."""

from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text

from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import subscribe
from queues.database import grants, schema, tables
from queues.database.grantees import Grantee
from queues.database.transactions import writing
from queues.errors import SchemaMismatchError
from queues.names import ClientName, SiteId
from queues.receive.blocked import blocked
from queues.send_log import links
from queues.send_log.port import SessionKey
from queues.states import LinkWish
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.source import SourceSite
from tests.system import roles
from tests.waiting import eventually


def rows(engine: Engine, view: str, **wanted: str) -> list[dict[str, Any]]:
    where = " AND ".join(f"{name} = :{name}" for name in wanted) or "1 = 1"
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT * FROM {view} WHERE {where}"), wanted)
        return [dict(row._mapping) for row in found]


def lag(engine: Engine, **wanted: str) -> dict[str, Any]:
    [found] = rows(engine, "lrq_lag", **wanted)
    return found


def test_the_views_have_the_columns_of_the_metadata(site: Engine):
    inspector = inspect(site)
    for view in tables.views_metadata.sorted_tables:
        assert [each["name"] for each in inspector.get_columns(view.name)] == list(view.columns.keys())
    others = {"lrq_name_rules", "lrq_transmit", "lrq_transmitted"} if site.dialect.name == "sqlite" else set()
    assert set(inspector.get_view_names()) - others == {each.name for each in tables.views_metadata.sorted_tables}


def test_a_missing_view_is_noticed(site: Engine):
    with site.begin() as connection:
        connection.execute(text("DROP VIEW lrq_lag"))
    with pytest.raises(SchemaMismatchError, match="the database lacks view lrq_lag"):
        schema.check(site)


def test_a_session_shows_its_entries_and_their_age(site: Engine):
    source = SourceSite(site)
    source.transmit(b"1", b"2", to=["tokyo"])
    end = source.tick()
    source.age(90)
    source.session("tokyo", 0)
    source.session("lima", end, state="wait for apply", reason="words")
    found = lag(site, peer="tokyo")
    assert (found["direction"], found["client"], found["state"], found["reason"]) == (
        "send",
        "policy",
        "log-entry sync",
        "live",
    )
    assert found["entries"] == end
    assert 89 < found["age_seconds"] < 120
    current = lag(site, peer="lima")
    assert (current["entries"], current["age_seconds"]) == (0, 0)
    source.session("lima", end, state="inactive")
    assert lag(site, peer="lima")["entries"] == 0


@pytest.mark.parametrize(("applied", "left"), [(None, 1), (1, 2), (0, 3), (3, 1)])
def test_the_applied_position_counts_if_the_source_knows_it(site: Engine, applied: int | None, left: int):
    source = SourceSite(site)
    source.transmit(b"1", to=["tokyo"])
    source.tick()
    source.transmit(b"2", to=["tokyo"])
    source.tick()
    source.transmit(b"3", to=["tokyo"])
    assert source.tick() == 3
    source.session("tokyo", 2, applied=applied)
    assert lag(site)["entries"] == left


class Refuse(RoutingQueueListener):
    client_name = "policy"

    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        return True

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        if any(entry.opaque_payload == b"poison" for entry in entries):
            raise ValueError("a secret payload")
        return True


@pytest.mark.parametrize("shards", [1, 2])
def test_a_receive_queue_shows_its_waiting_entries_and_the_reason_for_a_block(site: Engine, shards: int):
    arrivals = Arrivals(site)
    arrivals.tick([b"1"], [b"2", b"3"], gap=5)
    found = lag(site)
    assert (found["direction"], found["peer"], found["state"], found["entries"]) == (
        "receive",
        "tokyo",
        "not subscribed",
        3,
    )
    with subscribe(site, Refuse(), poll_interval=0.02, shards=shards):
        eventually(lambda: lag(site)["entries"] == 0)
        arrivals.tick([b"poison"], [b"4"])
        eventually(lambda: blocked(site))
        found = eventually(lambda: [each for each in rows(site, "lrq_lag") if each["state"] == "blocked"])[0]
    assert found["entries"] == 2
    assert found["reason"].startswith("ValueError (test_views.py, line ")
    assert "secret" not in str(found)
    assert found["idle_seconds"] >= 0


def test_links_have_their_wish_with_and_without_a_session(site: Engine):
    SourceSite(site).session("tokyo", 7, applied=3)
    with writing(site) as connection:
        key = SessionKey(ClientName("policy"), SiteId("lima"))
        links.set_wish(connection, [key], LinkWish.DRAINING)
    [tokyo] = rows(site, "lrq_links", destination="tokyo")
    assert (tokyo["wish"], tokyo["state"], tokyo["acked_seq"], tokyo["applied_seq"]) == (
        "running",
        "log-entry sync",
        7,
        3,
    )
    assert (tokyo["asked_at"], tokyo["ended_at"]) == (None, None)
    [lima] = rows(site, "lrq_links", destination="lima")
    assert (lima["wish"], lima["state"], lima["acked_seq"]) == ("draining", "none", None)
    assert str(lima["asked_at"]).startswith("20")


def test_a_monitor_reads_the_views_and_no_table(site: Engine):
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no roles")
    SourceSite(site).session("tokyo", 0)
    with roles.new_role(site) as role:
        grants.grant(site, role, Grantee.MONITOR)
        with roles.engine_of(site, role) as engine:
            assert lag(engine)["peer"] == "tokyo"
            assert rows(engine, "lrq_links")[0]["destination"] == "tokyo"
            for table in ("lrq_sessions", "lrq_link_wishes", "lrq_parked_entries", "lrq_site"):
                with engine.connect() as connection, pytest.raises(Exception, match="permission denied"):
                    connection.execute(text(f"SELECT * FROM {table}"))
