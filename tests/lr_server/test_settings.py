"""Settings: their sources, and the errors for mistakes in them."""

import traceback
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from lr_server.settings import GIB, MIB, Settings
from queues.errors import ConfigurationError

SECRET = "hunter2"
MINIMAL: dict[str, Any] = {"site_id": "paris", "database_url": f"postgresql+psycopg://lrq:{SECRET}@db/paris"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*Settings.model_fields, "schema"):
        monkeypatch.delenv(f"LRQ_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def refused(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Settings(**{**MINIMAL, **values})
    return str(caught.value)


def test_the_schema_of_the_tables_goes_into_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert make_url(Settings(**MINIMAL, schema="lrq").database_url).query == {"lrq_schema": "lrq"}
    (tmp_path / "lrq.toml").write_text(
        'site_id = "lima"\ndatabase_url = "postgresql+psycopg://db/x"\nschema = "file"\n'
    )
    assert make_url(Settings.load().database_url).query == {"lrq_schema": "file"}
    monkeypatch.setenv("LRQ_SCHEMA", "variable")
    assert make_url(Settings.load().database_url).query == {"lrq_schema": "variable"}
    assert make_url(Settings(**MINIMAL).database_url).query == {"lrq_schema": "variable"}
    assert make_url(Settings.load(schema="given").database_url).query == {"lrq_schema": "given"}
    assert SECRET not in repr(Settings(**MINIMAL))
    copied = Settings.load(database_url=Settings.load().database_url)
    assert copied.database_url == Settings.load().database_url


def test_a_schema_that_does_not_fit_is_refused():
    assert refused(schema="lrq", database_url="sqlite:///paris.db") == "SQLite has no schemas: remove `schema`"
    assert "`schema` is 'lrq'" in refused(schema="lrq", database_url="postgresql+psycopg://db/x?lrq_schema=other")
    assert "1 to 63 bytes" in refused(schema=7)
    assert "did you mean 'schema'" in refused(shema="lrq")


def test_two_fields_suffice():
    settings = Settings(**MINIMAL)
    assert (settings.listen, settings.peers, settings.clients) == ((), {}, ())
    assert (settings.initial_sync, settings.flow_control) == ("auto", "smart")
    assert settings.max_payload_bytes == 16 * MIB
    assert settings.max_batch_bytes == 2 * MIB
    assert settings.retention_seconds == 7 * 86_400
    assert settings.retention_bytes == 10 * GIB
    assert settings.lease_seconds == 10


def test_the_example_of_the_documentation_is_accepted():
    settings = Settings(
        site_id="paris",
        database_url="postgresql+psycopg://...",
        listen=["tcp://127.0.0.1:0"],
        peers={"tokyo": "tcp://10.0.0.2:7400", "lima": "ipc:///run/lima.sock", "nairobi": "local:nairobi"},
        clients=["policy"],
    )
    assert settings.site == "paris"
    assert settings.client_names == ("policy",)


def test_a_file_holds_the_fields_by_name_and_peers_as_a_table(tmp_path: Path):
    file = tmp_path / "here.toml"
    file.write_text(
        'site_id = "paris"\ndatabase_url = "sqlite:///paris.db"\nclients = ["policy"]\nwindow_frames = 3\n'
        '[peers]\ntokyo = "tcp://10.0.0.2:7400"\n'
    )
    settings = Settings.load(file)
    assert (settings.site_id, settings.window_frames) == ("paris", 3)
    assert settings.peers == {"tokyo": "tcp://10.0.0.2:7400"}


def test_the_file_in_the_working_directory_is_read(tmp_path: Path):
    (tmp_path / "lrq.toml").write_text('site_id = "lima"\ndatabase_url = "sqlite:///lima.db"\n')
    assert Settings.load().site_id == "lima"


def test_variables_override_the_file_and_suffice_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LRQ_SITE_ID", "tokyo")
    monkeypatch.setenv("LRQ_DATABASE_URL", "sqlite:///tokyo.db")
    monkeypatch.setenv("LRQ_PEERS", '{"paris": "tcp://10.0.0.1:7400"}')
    monkeypatch.setenv("LRQ_CLIENTS", "policy, inventory")
    monkeypatch.setenv("LRQ_LISTEN", '["tcp://0.0.0.0:7400"]')
    assert Settings.load().client_names == ("policy", "inventory")
    (tmp_path / "lrq.toml").write_text('site_id = "lima"\nwindow_frames = 3\n')
    settings = Settings.load()
    assert (settings.site_id, settings.window_frames) == ("tokyo", 3)
    assert settings.peers == {"paris": "tcp://10.0.0.1:7400"}
    assert list(settings.listen) == ["tcp://0.0.0.0:7400"]


def test_the_files_for_tls_are_named_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LRQ_TLS_CERTIFICATE", "/etc/lrq/site.pem")
    monkeypatch.setenv("LRQ_TLS_KEY", "/etc/lrq/site.key")
    monkeypatch.setenv("LRQ_TLS_AUTHORITY", "/etc/lrq/authority.pem")
    credentials = Settings(**MINIMAL, listen=["tls://0.0.0.0:7400"], tls_verify_site=True).credentials
    assert credentials is not None
    assert credentials.key == Path("/etc/lrq/site.key")
    assert credentials.verify_site


def test_arguments_override_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LRQ_SITE_ID", "tokyo")
    monkeypatch.setenv("LRQ_PEERS", '{"lima": "local:lima"}')
    settings = Settings(**MINIMAL, peers={"nairobi": "local:nairobi"})
    assert (settings.site_id, settings.peers) == ("paris", {"nairobi": "local:nairobi"})


def test_values_given_by_name_override_variables_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lrq.toml").write_text('site_id = "lima"\ndatabase_url = "sqlite:///lima.db"\ntick_rows = 7\n')
    monkeypatch.setenv("LRQ_SITE_ID", "tokyo")
    settings = Settings.load(tmp_path / "lrq.toml", site_id="paris")
    assert (settings.site_id, settings.database_url, settings.tick_rows) == ("paris", "sqlite:///lima.db", 7)


def test_settings_are_immutable():
    with pytest.raises(ValueError, match="frozen"):
        Settings(**MINIMAL).site_id = "lima"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"lisen": []}, "there is no setting 'lisen': did you mean 'listen'?"),
        ({"zzz": 1}, "there is no setting 'zzz'"),
        ({"peers": {"tokyo": "http://x"}}, "peers[tokyo]: 'http://x' is not an endpoint: write tcp://host:port"),
        ({"peers": {"paris": "local:paris"}}, "peers names 'paris', which is this site itself: remove that peer"),
        ({"peers": {"tokyo": "local:lima"}}, "peers[tokyo]: local:lima leads to site 'lima': write local:tokyo"),
        ({"peers": {"tokyo": "tcp://a:1, tcp://a:1"}}, "peers[tokyo]: 'tcp://a:1' is there twice: write each"),
        (
            {"listen": ["tcp://0.0.0.0:7400"], "peers": {"tokyo": "tcp://localhost:7400"}},
            "peers[tokyo]: tcp://localhost:7400 leads to this site itself: write an endpoint of 'tokyo'",
        ),
        ({"topology": "app:"}, "topology: 'app:' is no MODULE:NAME"),
        ({"topology": ""}, "topology: '' is no topology: write"),
        ({"preferred_network": "10.1.0.1/16"}, "preferred_network[0]: '10.1.0.1/16' is no network (10.1.0.1/16 has"),
        ({"peers": {"to kyo": "local:x"}}, "peers[to kyo]: 'to kyo' is not a valid site id"),
        ({"peers": "{"}, "peers: write JSON such as"),
        ({"replicas": {"tokyo": ["tokyo-a"]}}, "replicas[tokyo]: 'tokyo-a' is no peer: add the site to peers first"),
        ({"replicas": {"a": ["b"], "b": ["a"]}}, "replicas name each other in a circle (a -> b -> a): name sites as"),
        ({"replicas": {"tokyo": []}}, "replicas[tokyo] has no member: name its sites, or remove the group"),
        (
            {"peers": {"tokyo": "attached:lima"}},
            "peers[tokyo]: attached:lima leads to site 'lima': write attached:tokyo",
        ),
        (
            {"peers": {"tokyo": "attached:tokyo"}, "listen": []},
            "peers[tokyo]: tokyo attaches itself to an endpoint of this site, and nothing is in `listen`: add one",
        ),
        ({"attach": {"paris": "tcp://a:1"}}, "attach names 'paris', which is this site itself: remove that source"),
        ({"attach": {"lima": "attached:lima"}}, "attach[lima]: 'attached:lima' names a server that attaches itself"),
        ({"attach": {"lima": "local:lima"}}, "attach[lima]: 'local:lima' names a server in this process: write"),
        ({"attach": {"lima": "tcp://a:0"}}, "attach[lima]: 'tcp://a:0' has no port to connect to: write the port"),
        ({"attach": {"lima": "tls://a:1"}}, "tls_certificate is missing: tls:// needs"),
        ({"listen": ["attached:tokyo"]}, "listen[0]: 'attached:tokyo' names a server that attaches itself: write tcp"),
        ({"listen": ["local:tokyo"]}, "listen[0]: 'local:tokyo' names a server in this process"),
        ({"clients": ["a b"]}, "clients[0]: 'a b' is not a valid client name"),
        ({"site_id": "par/is"}, "site_id: 'par/is' is not a valid site id"),
        ({"database_url": f"mysql://root:{SECRET}@db/x"}, "database_url: write a URL such as sqlite:///paris.db"),
        ({"database_url": f"{SECRET}"}, "database_url: write a URL such as sqlite:///paris.db"),
        ({"initial_sync": "logs"}, "initial_sync: write 'auto', 'snapshot' or 'log'"),
        ({"flow_control": "none"}, "flow_control: write 'cascade', 'drop' or 'smart'"),
        ({"window_frames": 0}, "window_frames: write a number above 0"),
        ({"retention_seconds": float("inf")}, "retention_seconds: write a finite number"),
        ({"max_batch_bytes": "1 MiB"}, "max_batch_bytes: write a whole number"),
        (
            {"max_message_bytes": MIB},
            "max_message_bytes is 1048576, but a tick, or a batch and the largest payload, need",
        ),
        (
            {"max_payload_bytes": 1024, "max_batch_bytes": 1024, "tick_bytes": 1024, "max_message_bytes": 600_000},
            "max_message_bytes is 600000, but a block of a snapshot may need 2584288: set at least 2584288",
        ),
        ({"tick_rows": 262_145}, "tick_rows: write a number of at most 262144"),
        ({"max_streams": 0}, "max_streams: write a number above 0"),
        ({"retry_cap_seconds": 0.01}, "retry_cap_seconds is below retry_first_seconds: raise retry_cap_seconds"),
        (
            {"acknowledged_retention_seconds": 3600, "retention_seconds": 60},
            "acknowledged_retention_seconds is 3600, but no entry is kept for more than the 60 of retention_seconds",
        ),
        ({"acknowledged_retention_seconds": -1}, "acknowledged_retention_seconds: write a number of at least 0"),
        ({"stall_seconds": 1}, "stall_seconds must be above heartbeat_seconds"),
        ({"metrics": "9464"}, "metrics: '9464' is no address: write host:port, such as 127.0.0.1:9464"),
        ({"metrics": "127.0.0.1:99999"}, "metrics: '127.0.0.1:99999' is no address: write host:port"),
        ({"listen": ["tls://0.0.0.0:7400"]}, "tls_certificate is missing: tls:// needs"),
        ({"peers": {"tokyo": "tcp://a:1, tls://b:1"}}, "tls_certificate is missing: tls:// needs"),
        ({"tls_certificate": "site.pem"}, "tls_key is missing: tls:// needs"),
        ({"tls_verify_site": True}, "tls_verify_site is on, but nothing in `listen` begins with tls://"),
    ],
)
def test_the_error_for_a_mistake_is_one_sentence_that_names_the_field(values: dict[str, Any], sentence: str):
    told = refused(**values)
    assert told.startswith(sentence)
    assert "\n" not in told


@pytest.mark.parametrize("missing", ["site_id", "database_url"])
def test_the_error_for_a_missing_field_names_its_variable(missing: str):
    values = {name: value for name, value in MINIMAL.items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"{missing} is missing: .* set LRQ_{missing.upper()}"):
        Settings(**values)


def test_a_misspelt_field_is_reported_before_the_missing_one(tmp_path: Path):
    (tmp_path / "lrq.toml").write_text('siteid = "lima"\ndatabase_url = "sqlite:///lima.db"\n')
    with pytest.raises(ConfigurationError, match=r"no setting 'siteid': did you mean 'site_id'\?"):
        Settings.load()


def test_the_error_for_a_missing_or_malformed_file_names_the_file(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read: No such file"):
        Settings.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("site_id == 1")
    with pytest.raises(ConfigurationError, match=r"bad\.toml is no TOML: .*line 1"):
        Settings.load(tmp_path / "bad.toml")


def test_the_password_is_never_shown():
    settings = Settings(**MINIMAL)
    in_query = Settings(site_id="paris", database_url=f"postgresql+psycopg://db/paris?password={SECRET}")
    for shown in (repr(settings), str(settings), f"{settings}", repr(in_query)):
        assert SECRET not in shown
    assert "lrq:***@db/paris" in repr(settings)
    for mistake in ({"database_url": f"mysql://root:{SECRET}@db/x"}, {"site_id": ""}, {"zzz": 1}):
        with pytest.raises(ConfigurationError) as caught:
            Settings(**{**MINIMAL, **mistake})
        assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True)).replace(repr(MINIMAL), "")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("LRQ_PEER", "LRQ_PEERS"), ("LRQ_DATABASEURL", "LRQ_DATABASE_URL"), ("LRQ_TICK_ROW", "LRQ_TICK_ROWS")],
)
def test_the_error_for_a_misspelt_variable_names_the_right_one(
    written: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(written, "1")
    with pytest.raises(ConfigurationError, match=rf"^there is no variable {written}: did you mean {meant}\?$"):
        Settings.load(site_id="paris", database_url="sqlite:///paris.db")


@pytest.mark.parametrize("foreign", ["LRQ_PORT", "LRQ_SERVICE_HOST", "LRQ_PORT_7400_TCP_ADDR", "LRQ_TEST_SEED"])
def test_foreign_variables_with_the_same_prefix_are_ignored(foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(foreign, "1")
    assert Settings.load(site_id="paris", database_url="sqlite:///paris.db").site_id == "paris"


def test_peers_that_look_alike_are_warned_about_when_the_settings_are_read(caplog: pytest.LogCaptureFixture) -> None:
    peers = {"Paris": "tcp://a:1", "tokyo-1": "tcp://b:1", "tokyo_1": "tcp://c:1", "lima": "tcp://d:1"}
    Settings(site_id="paris", database_url="sqlite:///paris.db", peers=peers)
    # A thread of an earlier test may log meanwhile.
    said = [text for record in caplog.records if "look alike" in (text := record.getMessage())]
    assert len(said) == 2
    assert "'Paris' and 'paris' look alike" in said[0]
    assert "'tokyo-1' and 'tokyo_1' look alike" in said[1]


def test_followers_cannot_be_required_on_sqlite() -> None:
    with pytest.raises(ConfigurationError, match="require_followers needs PostgreSQL, because SQLite has no standby"):
        Settings(site_id="paris", database_url="sqlite:///paris.db", require_followers=1)
    assert Settings(site_id="paris", database_url="postgresql+psycopg://db/paris", require_followers=1)
