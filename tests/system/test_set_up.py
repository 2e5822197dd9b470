"""Databases, peers and certificates that do not match the settings."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import trustme

from lr_client import subscribe
from queues.errors import ConfigurationError, SchemaMismatchError, WrongSiteError
from sink.transport.credentials import Credentials
from tests.certificates import issued
from tests.system.world import Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

QUICK_RETRIES = {"retry_cap_seconds": 0.1, "slow_retry_seconds": 0.1}


def test_a_server_refuses_the_database_of_another_site(world: World) -> None:
    url = world.settings("tokyo").database_url
    with pytest.raises(WrongSiteError, match="belongs to site 'tokyo', not to 'paris'"):
        world.server("paris", database_url=url)


def test_server_and_subscriber_refuse_tables_newer_than_the_software(world: World) -> None:
    world.execute("paris", "UPDATE lrq_alembic_version SET version_num = '9999'")
    world.execute("paris", "UPDATE lrq_site SET oldest_schema = '9999'")
    with pytest.raises(SchemaMismatchError, match="newer than this lrq"):
        world.server("paris")
    with pytest.raises(SchemaMismatchError, match="newer than this lrq"):
        subscribe(world.site("paris"), Recorder())


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_server_that_may_not_begin_listens_no_further(world: World, tmp_path: Path) -> None:
    world.server("paris", ranges=8)
    socket_file = tmp_path / "paris.sock"
    with pytest.raises(ConfigurationError, match="share 8 ranges, not 4"):
        world.server("paris", ranges=4, listen=[f"ipc://{socket_file}"])
    assert not socket_file.exists()


def test_an_unreachable_peer_is_shown_and_gets_its_entries_once_it_starts(world: World, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/tokyo.sock"
    paris = world.server("paris", peers={"tokyo": endpoint}, initial_sync="log", **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "backing off")
    eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == 1)
    eventually(lambda: "cannot be reached" in sessions_of(paris)["tokyo"]["reason"])
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.log("paris") == [b"entry"])


def test_sites_replicate_by_tls_and_report_a_wrong_or_missing_certificate(world: World, tmp_path: Path) -> None:
    authority = trustme.CA()
    at_tokyo, at_paris = (issued(authority, folder(tmp_path, name)) for name in ("tokyo", "paris"))
    strangers = issued(trustme.CA(), folder(tmp_path, "strangers"))
    tokyo = world.server("tokyo", listen=["tls://127.0.0.1:0"], **files(at_tokyo))
    recorder = world.subscribe("tokyo")
    shutil.copytree(strangers.key.parent, at_paris.key.parent, dirs_exist_ok=True)
    peers = {"tokyo": tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", **files(at_paris), **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: "`tls_authority`" in sessions_of(paris).get("tokyo", {}).get("reason", ""))
    at_paris.key.unlink()
    eventually(lambda: "site.key cannot be read" in sessions_of(paris)["tokyo"]["reason"])
    issued(authority, at_paris.key.parent)
    eventually(lambda: recorder.log("paris") == [b"entry"])


def test_a_source_that_its_certificate_does_not_name_is_refused_with_a_reason(world: World, tmp_path: Path) -> None:
    authority = trustme.CA()
    at_tokyo, at_paris = (issued(authority, folder(tmp_path, name)) for name in ("tokyo", "paris"))
    tokyo = world.server("tokyo", listen=["tls://127.0.0.1:0"], tls_verify_site=True, **files(at_tokyo))
    recorder = world.subscribe("tokyo")
    peers = {"tokyo": tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", **files(at_paris), **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: "not site 'paris'" in sessions_of(paris).get("tokyo", {}).get("reason", ""))
    issued(authority, at_paris.key.parent, "paris")
    eventually(lambda: recorder.log("paris") == [b"entry"])


def test_an_unreadable_certificate_fails_the_start(world: World, tmp_path: Path) -> None:
    credentials = issued(trustme.CA(), tmp_path)
    credentials.authority.unlink()
    with pytest.raises(ConfigurationError, match=r"authority\.pem cannot be read"):
        world.server("paris", peers={"tokyo": "tls://127.0.0.1:1"}, **files(credentials))


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def files(credentials: Credentials) -> dict[str, Path]:
    return {
        "tls_certificate": credentials.certificate,
        "tls_key": credentials.key,
        "tls_authority": credentials.authority,
    }


def _is_refused_by_lima(session: dict[str, Any]) -> bool:
    return session.get("state") == "failed" and "'lima'" in session["reason"]


def test_a_wrong_site_at_the_endpoint_gets_no_entry(world: World, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/tokyo.sock"
    lima = world.server("lima", listen=[endpoint])
    paris = world.server("paris", peers={"tokyo": endpoint}, initial_sync="log", **QUICK_RETRIES)
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: _is_refused_by_lima(sessions_of(paris).get("tokyo", {})))
    assert lima.status()["receive_queues"] == []
    lima.stop()
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.log("paris") == [b"entry"])
    in_log_sync(paris, "tokyo")
