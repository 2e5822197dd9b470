"""Sites and a producer with certificates of `lrq tls` reach each other; those of another authority do not."""

from pathlib import Path
from typing import Any

import pytest

from lr_client.producer import Producer
from lrq.cli.main import run
from queues.errors import LrqError
from tests.system.world import World, sessions_of
from tests.waiting import eventually

QUICK_RETRIES = {"retry_cap_seconds": 0.1, "slow_retry_seconds": 0.1}


def issued(folder: Path, name: str, *options: str) -> dict[str, Path]:
    """Return the TLS settings of *name*, whose authority is made where there is none."""
    if not (folder / "authority.pem").exists():
        assert run(["tls", "init", "--folder", str(folder)]) == 0
    assert run(["tls", "issue", name, *options, "--folder", str(folder)]) == 0
    return {
        "tls_certificate": folder / f"{name}.pem",
        "tls_key": folder / f"{name}.key",
        "tls_authority": folder / "authority.pem",
    }


def receiving(world: World, folder: Path, **options: Any) -> str:
    """Start tokyo, which believes a source by its certificate only; return its endpoint."""
    files = issued(folder, "tokyo", "127.0.0.1")
    tokyo = world.server("tokyo", listen=["tls://127.0.0.1:0"], tls_verify_site=True, **files, **options)
    return tokyo.endpoints[0]


def sending(world: World, endpoint: str, **files: Path) -> Any:
    return world.server("paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log", **files, **QUICK_RETRIES)


def test_sites_of_one_authority_replicate_and_go_on_with_renewed_certificates(world: World, tmp_path: Path) -> None:
    endpoint = receiving(world, tmp_path)
    recorder = world.subscribe("tokyo")
    files = issued(tmp_path, "paris")
    paris = sending(world, endpoint, **files)
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    paris.stop()
    for name in ("tokyo", "paris"):
        issued(tmp_path, name, "--renew")
    sending(world, endpoint, **files)
    world.transmit("paris", b"second", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first", b"second"])


def test_a_certificate_for_another_name_writes_nothing_as_this_site(world: World, tmp_path: Path) -> None:
    endpoint = receiving(world, tmp_path)
    paris = sending(world, endpoint, **issued(tmp_path, "lima"))
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: "'lima', not site 'paris'" in sessions_of(paris).get("tokyo", {}).get("reason", ""))


def test_a_certificate_of_another_authority_is_rejected_with_a_reason(world: World, tmp_path: Path) -> None:
    endpoint = receiving(world, tmp_path / "ours")
    paris = sending(world, endpoint, **issued(tmp_path / "theirs", "paris"))
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: "`tls_authority`" in sessions_of(paris).get("tokyo", {}).get("reason", ""))


def refused(words: str = ".") -> Any:
    return pytest.raises(LrqError, match=words)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_producer_sends_under_the_name_in_its_certificate(world: World, tmp_path: Path) -> None:
    files = issued(tmp_path / "ours", "paris", "127.0.0.1")
    paris = world.server(
        "paris", listen=["tls://127.0.0.1:0"], ingest=True, producers={"meter-*": {"clients": ["policy"]}}, **files
    )
    meter = issued(tmp_path / "ours", "meter-1")
    with Producer(paris.endpoints[0], client="policy", producer="meter-1", **meter) as producer:
        assert producer.send([(b"21.5", ["tokyo"])], timeout=20).seq == 1
    with refused("meter-2"), Producer(paris.endpoints[0], client="policy", producer="meter-2", **meter) as producer:
        producer.send([(b"21.5", ["tokyo"])], timeout=20)
    stranger = {**issued(tmp_path / "theirs", "meter-1"), "tls_authority": files["tls_authority"]}
    with refused(), Producer(paris.endpoints[0], client="policy", producer="meter-1", **stranger) as producer:
        producer.send([(b"21.5", ["tokyo"])], timeout=2)
