"""Databases and peers that are not what the settings say."""

from pathlib import Path

import pytest

from lr_client import subscribe
from queues.errors import SchemaMismatchError, WrongSiteError
from tests.system.world import Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

QUICK_RETRIES = {"retry_cap_seconds": 0.1, "slow_retry_seconds": 0.1}


def test_a_server_refuses_the_database_of_another_site(world: World) -> None:
    url = world.settings("tokyo").database_url
    with pytest.raises(WrongSiteError, match="belongs to site 'tokyo', not to 'paris'"):
        world.server("paris", database_url=url)


def test_everything_refuses_tables_that_are_newer_than_the_software(world: World) -> None:
    world.execute("paris", "UPDATE lrq_alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatchError, match="newer than this lrq"):
        world.server("paris")
    with pytest.raises(SchemaMismatchError, match="newer than this lrq"):
        subscribe(world.site("paris"), Recorder())


def test_a_peer_that_is_not_there_yet_is_shown_and_gets_everything_when_it_comes(world: World, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/tokyo.sock"
    paris = world.server("paris", peers={"tokyo": endpoint}, initial_sync="log", **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "backing off")
    eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == 1)
    eventually(lambda: "cannot be reached" in sessions_of(paris)["tokyo"]["reason"])
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.log("paris") == [b"entry"])


def test_another_site_that_answers_is_told_nothing(world: World, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/tokyo.sock"
    lima = world.server("lima", listen=[endpoint])
    paris = world.server("paris", peers={"tokyo": endpoint}, initial_sync="log", **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "failed")
    assert "'lima'" in sessions_of(paris)["tokyo"]["reason"]
    assert lima.status()["receive_queues"] == []
    lima.stop()
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.log("paris") == [b"entry"])
    in_log_sync(paris, "tokyo")
