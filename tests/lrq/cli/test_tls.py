"""`lrq tls`: the files, their modes and contents, renewal, and refusals."""

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lrq.cli.doctor.certificates import validities
from queues.clock import now_us
from sink.transport.credentials import Credentials
from tests.lrq.cli.command import ROOT, Command


def now() -> datetime:
    return datetime.fromtimestamp(now_us() / 1_000_000, UTC)


def certificate(file: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(file).read_bytes())


def hosts(file: str) -> list[str]:
    found = certificate(file).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(each.value) for each in found.value]


def test_the_certificate_of_a_site_names_the_site_and_its_hosts_for_both_sides_of_a_connection(lrq: Command):
    assert lrq("tls", "init").code == 0
    done = lrq("tls", "issue", "paris", "paris.example", "10.0.0.7", "::1")
    assert done.out.startswith("tls/paris.pem names paris at paris.example, 10.0.0.7, ::1, and is valid until 20")
    made, authority = certificate("tls/paris.pem"), certificate("tls/authority.pem")
    (name,) = made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "paris"
    assert hosts("tls/paris.pem") == ["paris.example", "10.0.0.7", "::1"]
    usages = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {each._name for each in usages} == {"serverAuth", "clientAuth"}
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)
    made.verify_directly_issued_by(authority)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    Credentials(Path("tls/paris.pem"), Path("tls/paris.key"), Path("tls/authority.pem")).read()


def test_every_file_is_for_this_user_only(lrq: Command):
    lrq("tls", "init", "--folder", "deep/tls")
    lrq("tls", "issue", "paris", "--folder", "deep/tls")
    files = sorted(Path("deep/tls").iterdir())
    assert [file.name for file in files] == ["authority.key", "authority.pem", "paris.key", "paris.pem"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(Path("deep/tls").stat().st_mode) == 0o700


@pytest.mark.parametrize("command", [["init"], ["issue", "paris"]], ids=" ".join)
@pytest.mark.parametrize("lost", ["pem", "key"])
def test_no_file_is_overwritten(lrq: Command, command: list[str], lost: str):
    lrq("tls", "init")
    lrq("tls", "issue", "paris")
    Path(f"tls/{'authority' if command == ['init'] else 'paris'}.{lost}").unlink()
    before = {file: file.read_bytes() for file in Path("tls").iterdir()}
    done = lrq("tls", *command)
    assert (done.code, done.out) == (1, "")
    assert "exists and stays" in done.error
    assert {file: file.read_bytes() for file in Path("tls").iterdir()} == before


@pytest.mark.processes
def test_a_full_disk_leaves_no_file(lrq: Command):
    words = f"ulimit -f 0; exec {sys.executable} -m lrq tls init"
    done = subprocess.run(
        ["bash", "-c", words], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"lrq: File too large\n")
    assert list(Path("tls").iterdir()) == []
    assert lrq("tls", "init").code == 0


def test_a_renewed_certificate_keeps_the_hosts_and_has_a_new_key_and_end(lrq: Command):
    lrq("tls", "init")
    first = lrq("tls", "issue", "paris", "paris.example", "--days", "10", "--json").json
    key = Path(first["key"]).read_bytes()
    renewed = lrq("tls", "issue", "paris", "--renew", "--json").json
    assert renewed["hosts"] == first["hosts"] == ["paris.example"]
    assert renewed["valid_until"] > first["valid_until"]
    assert Path(first["key"]).read_bytes() != key
    assert sorted(file.name for file in Path("tls").iterdir())[2:] == ["paris.key", "paris.pem"]
    assert lrq("tls", "issue", "paris", "other.example", "--renew", "--json").json["hosts"] == ["other.example"]
    Credentials(Path("tls/paris.pem"), Path("tls/paris.key"), Path("tls/authority.pem")).read()


def test_a_certificate_is_shown_with_its_end_and_never_outlives_its_authority(lrq: Command):
    authority = lrq("tls", "init", "--days", "20", "--json").json
    assert lrq("tls", "issue", "paris", "--json").json["valid_until"] == authority["valid_until"]
    short = lrq("tls", "issue", "tokyo", "--days", "5", "--json").json["valid_until"]
    (found,) = validities(Path("tls/tokyo.pem").read_text())
    assert f"{found.end:%Y-%m-%dT%H:%M:%SZ}" == short
    assert timedelta(days=4) < found.end - now() < timedelta(days=6)
    assert found.begin < now() - timedelta(minutes=30)


@pytest.mark.parametrize("host", ["tls://paris.example:7400", "paris.example:7400", "", "a b", "pärıs"])
def test_a_host_with_a_port_or_scheme_is_refused(lrq: Command, host: str):
    lrq("tls", "init")
    done = lrq("tls", "issue", "paris", host)
    assert done.code == 2
    assert "without tls:// and port" in done.error


@pytest.mark.parametrize("name", ["a/b", "authority", "x" * 65])
def test_an_unfit_name_is_refused(lrq: Command, name: str):
    lrq("tls", "init")
    assert lrq("tls", "issue", name).code == 2
    assert len(list(Path("tls").iterdir())) == 2


def test_an_unusable_authority_is_one_sentence(lrq: Command):
    assert "run `lrq tls init`" in lrq("tls", "issue", "paris").error
    assert "use 1 to 64" in lrq("tls", "init", "--name", "").error
    lrq("tls", "init")
    lrq("tls", "init", "--folder", "other")
    Path("tls/authority.key").write_bytes(Path("other/authority.key").read_bytes())
    assert "tls/authority.key is not the key of tls/authority.pem" in lrq("tls", "issue", "paris").error
    Path("tls/authority.key").write_text("half a key")
    assert "is no private key in PEM" in lrq("tls", "issue", "paris").error


def test_an_expired_authority_issues_nothing(lrq: Command, monkeypatch: pytest.MonkeyPatch):
    lrq("tls", "init", "--days", "1")
    later = int((now() + timedelta(days=2)).timestamp() * 1_000_000)
    monkeypatch.setattr("lrq.cli.authority.now_us", lambda: later)
    assert "the authority was valid until" in lrq("tls", "issue", "paris").error
