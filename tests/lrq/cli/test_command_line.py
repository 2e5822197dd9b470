"""Rules for every command: help, exit codes, one-line errors, and the choice of the site."""

import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from lr_server import Settings
from lrq.cli.exit_codes import judged
from lrq.cli.place import locate
from queues.thread_lack import NO_THREAD
from tests.lrq.cli.command import ROOT, Command, lrq_process, spawn, unheard
from tests.lrq.cli.source import SourceSite
from tests.threads_refused import no_further_thread
from tools.reference.commands import names

GROUPS = ("lrq fence", "lrq link", "lrq park", "lrq peer", "lrq replay", "lrq ring", "lrq snapshot", "lrq tls")
COMMANDS = [name.removeprefix("lrq ").split() for name in (*names(), *GROUPS)]
ON_A_DATABASE = [
    ["init", "--site", "paris"], ["init", "--check"], ["serve", "--site", "paris"],
    ["work", "app:apply", "--await-tables", "0"],
    ["provide", "app:airports", "--client", "policy", "--await-tables", "0"], ["status"], ["top", "--once"],
    ["browse"], ["send", "--to", "tokyo", "--client", "policy", "--await-tables", "0", "x"], ["drain"], ["trim"],
    ["follow", "orders", "--client", "shop", "--to", "lima"], ["unfollow", "orders", "--client", "shop"],
    ["snapshot", "request", "tokyo"], ["snapshot", "list"], ["snapshot", "watch", "1"],
    ["snapshot", "cancel", "--all"], ["link", "forget", "tokyo"], ["resend", "list"],
    ["peer", "list"], ["peer", "add", "tokyo", "tcp://10.0.0.2:7400"], ["peer", "remove", "tokyo"],
    ["park", "list"], ["park", "retry", "1"], ["park", "discard", "1", "--yes"],
    ["fence", "list"], ["fence", "reset", "paris"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(lrq: Command, command: list[str]):
    done = lrq(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"Usage: lrq {' '.join(command)}" in done.out
    # An argument in two brackets, and a flag with a type.
    assert "[[" not in done.out
    assert "<bool>" not in done.out


def test_without_a_command_the_help_is_shown(lrq: Command):
    done = lrq()
    assert done.code == 0
    listed = [
        line.split()[1] for line in done.out.splitlines() if line.startswith("│ ") and line[2] != " " and line[2] != "-"
    ]
    assert " ".join(listed) == (
        "init doctor peer grant tls uninstall serve work provide console status top browse send produce follow "
        "unfollow snapshot drain park replay resend link subscribe trim fence replica ring demo"
    )


def test_help_loads_neither_the_database_nor_the_network_libraries():
    code = (
        "import sys, lrq.cli.main as m; m.run(['--help']);"
        "sys.exit(any(name in sys.modules for name in ('sqlalchemy', 'grpc', 'alembic', 'pydantic_settings')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=60)


_INTERRUPTED = """
import sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from lrq.__main__ import main
main()
"""


@pytest.mark.parametrize("library", ["queues.errors", "typer", "rich", "lrq.cli.main"])
def test_ctrl_c_while_the_libraries_load_ends_the_command_without_a_traceback(library: str):
    command = [sys.executable, "-c", _INTERRUPTED, library]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("command", ON_A_DATABASE, ids=" ".join)
def test_a_missing_database_url_is_a_one_line_error(lrq: Command, command: list[str]):
    done = lrq(*command)
    assert (done.code, done.out) == (1, "")
    assert "LRQ_DATABASE_URL" in done.error


@pytest.mark.parametrize("command", ON_A_DATABASE, ids=" ".join)
def test_an_unreachable_database_is_a_one_line_error(lrq: Command, command: list[str]):
    done = lrq(*command, "--database", "postgresql+psycopg://me:secret@127.0.0.1:1/paris")
    assert (done.code, done.out) == (1, "")
    assert "no PostgreSQL listens at 127.0.0.1 port 1: start the server" in done.error
    assert "secret" not in done.err


@pytest.mark.parametrize("command", [each for each in ON_A_DATABASE if each[0] != "init"], ids=" ".join)
def test_a_missing_database_file_is_an_error_and_is_not_created(lrq: Command, command: list[str], elsewhere: Path):
    done = lrq(*command, "--database", "sqlite:///missing.db")
    assert done.code == 1
    assert "there is no database missing.db: run `lrq init`" in done.error
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("command", [each for each in ON_A_DATABASE if each[0] != "init"], ids=" ".join)
def test_a_database_without_tables_is_an_error_that_names_lrq_init(lrq: Command, command: list[str], new_database):
    url = new_database()
    Path(url.partition(":///")[2]).touch() if url.startswith("sqlite") else None
    done = lrq(*command, "--database", url)
    assert done.code == 1
    assert "run `lrq init`" in done.error


def test_the_database_of_another_site_is_an_error(lrq: Command, source: SourceSite):
    done = lrq("status", "--database", source.url, "--site", "rome")
    assert done.code == 1
    assert "belongs to site 'paris', not to 'rome'" in done.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stauts"], "'status'"),
        (["status", "--nonsense"], "--nonsense"),
        (["send", "x"], "--to"),
        (["top", "--interval", "soon"], "--interval"),
        (["browse", "--limit", "0"], "--limit"),
        (["init", "--sql", "--check"], "exclude each other"),
        (["init", "--sql", "--dialect", "oracle"], "oracle"),
        (["snapshot", "request"], "--all"),
        (["snapshot", "request", "tokyo", "--all"], "--all"),
        (["serve", "--peer", "tokyo"], "SITE=ENDPOINT"),
        (["serve", "--attach", "paris"], "--attach paris: write SITE=ENDPOINT"),
        (["serve", "--log-level", "loud"], "for '--log-level': 'loud' is not one of"),
    ],
)
def test_an_invalid_command_line_is_a_one_line_error(
    lrq: Command, source: SourceSite, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LRQ_DATABASE_URL", source.url)
    done = lrq(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.error


@pytest.mark.parametrize("arguments", [["--debug", "status"], ["status", "--debug"]])
def test_debug_shows_the_traceback(lrq: Command, arguments: list[str]):
    done = lrq(*arguments, "--database", "sqlite:///missing.db")
    assert done.code == 1
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("lrq: there is no database")


def test_a_payload_may_look_like_an_option(lrq: Command, source: SourceSite):
    sent = lrq("send", "-d", source.url, "--to", "tokyo", "--client", "policy", "--", "--debug")
    assert sent.code == 0
    assert lrq("browse", "-d", source.url, "--json").json["entries"][0]["size"] == len("--debug")


def test_version_prints_the_version(lrq: Command):
    assert lrq("--version").out.startswith("lrq ")


def test_an_error_of_the_database_repeats_no_payload(lrq: Command, source: SourceSite):
    with source.engine.begin() as connection, pytest.raises(DBAPIError) as raised:
        connection.execute(text("INSERT INTO lrq_nothing VALUES (:payload)"), {"payload": "a secret"})
    assert "a secret" not in str(raised.value)


# --- choice of the site ---------------------------------------------------------------------------------------

ABOUT = 'database_url = "{url}"\nsite_id = "paris"\n'


def test_the_file_in_the_working_directory_names_the_site(lrq: Command, source: SourceSite, elsewhere: Path):
    (elsewhere / "lrq.toml").write_text(ABOUT.format(url=source.url))
    assert lrq("status", "--json").json["site"] == "paris"


def test_config_names_another_file(lrq: Command, source: SourceSite, tmp_path: Path):
    file = tmp_path / "other.toml"
    file.write_text(ABOUT.format(url=source.url))
    assert lrq("status", "--json", "--config", str(file)).json["site"] == "paris"
    done = lrq("status", "--config", str(tmp_path / "nothing.toml"))
    assert done.code == 1
    assert "nothing.toml cannot be read" in done.error


def test_variables_override_the_file_and_options_override_both(
    lrq: Command, new_site, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    urls = {name: new_site(name).url.render_as_string(hide_password=False) for name in ("paris", "rome", "oslo")}
    (elsewhere / "lrq.toml").write_text(f'database_url = "{urls["paris"]}"\n')
    assert lrq("status", "--json").json["site"] == "paris"
    monkeypatch.setenv("LRQ_DATABASE_URL", urls["rome"])
    assert lrq("status", "--json").json["site"] == "rome"
    assert lrq("status", "--json", "--database", urls["oslo"]).json["site"] == "oslo"


def test_a_command_ignores_invalid_settings_that_it_does_not_need(lrq: Command, source: SourceSite, elsewhere: Path):
    (elsewhere / "lrq.toml").write_text(f'database_url = "{source.url}"\ntick_rows = -1\nlisten = "nonsense"\n')
    assert lrq("status").code == 0
    assert lrq("browse").code == 0


def test_commands_and_server_read_the_same_settings(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    (elsewhere / "lrq.toml").write_text('database_url = "sqlite:///a.db"\nsite_id = "paris"\n')
    monkeypatch.setenv("LRQ_DATABASE_URL", "sqlite:///b.db")
    settings, place = Settings.load(), locate(None, None, None)
    assert (str(place.url), place.site) == (settings.database_url, settings.site_id)
    monkeypatch.setenv("LRQ_DATABASE_URL", "")
    assert str(locate(None, None, None).url) == Settings.load().database_url == "sqlite:///a.db"


def test_a_file_without_a_database_is_named(lrq: Command, tmp_path: Path):
    file = tmp_path / "paris.toml"
    file.write_text('site_id = "paris"\n')
    done = lrq("status", "--config", str(file))
    cure = f"give --database, set LRQ_DATABASE_URL, or write database_url in {file}"
    assert (done.code, done.err) == (1, f"lrq: no database is named: {cure}\n")
    file.write_text('site_id = "paris"\ndatabase = "sqlite:///a.db"\n')
    done = lrq("status", "--config", str(file))
    assert (done.code, done.err) == (
        1,
        f"lrq: no database is named: {file} has 'database', did you mean 'database_url'?\n",
    )


def test_a_password_is_not_shown(lrq: Command):
    done = lrq("status", "--database", "nonsense:secret@host")
    assert done.code == 1
    assert "secret" not in done.err


# --- as processes ---------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_pipe_closed_early_is_no_error(source: SourceSite):
    source.transmit(*[b"x" * 100] * 500, to=["tokyo"])
    command = (
        f"{sys.executable} -m lrq.cli.main browse --json -n 500 -d '{source.url}' | head -c 10; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 10, b"")


@pytest.mark.processes
@pytest.mark.parametrize("command", ["status", "browse", "peer"])
def test_a_reader_that_is_gone_is_no_error(source: SourceSite, command: str):
    words = [command] if command == "peer" else [command, "--database", source.url]
    done = unheard(*words)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.processes
def test_a_reader_that_is_gone_is_an_error_of_a_command_that_goes_on(source: SourceSite):
    done = unheard("serve", "--once", "--site", "paris", "--database", source.url, "--log-level", "error")
    assert (done.returncode, done.stderr) == (1, b"lrq: stdout was closed before the command had ended\n")


@pytest.mark.processes
@pytest.mark.parametrize("command", ["status", "status --json", "send --to tokyo --client policy x", "doctor"])
def test_a_command_without_any_stdout_works(source: SourceSite, command: str):
    words = f"{sys.executable} -m lrq {command} -d '{source.url}' >&-"
    done = subprocess.run(["bash", "-c", words], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.processes
def test_a_character_that_the_encoding_of_stdout_lacks_is_an_escape(source: SourceSite):
    done = lrq_process("status", "--database", source.url, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u25cb no server works" in done.stdout


def test_a_machine_that_starts_no_thread_is_told_with_the_cure():
    with no_further_thread(""), pytest.raises(RuntimeError) as refused:
        Thread().start()
    assert judged(refused.value) == (1, NO_THREAD)


@pytest.mark.processes
def test_an_error_is_one_line_on_stderr_and_an_exit_code():
    done = lrq_process("status", "--database", "sqlite:///missing.db")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"lrq: there is no database missing.db: run `lrq init`, or correct the database URL\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("command", "done"),
    [
        (["work", "tests.lrq.cli.worker_application:apply"], "listens to"),
        (["send", "--to", "tokyo", "--client", "policy", "x"], "paris/policy/"),
    ],
    ids=["work", "send"],
)  # fmt: skip
def test_a_command_that_starts_before_the_tables_waits_for_them(new_database, command: list[str], done: str):
    url = new_database()
    process = spawn(*command, "--await-tables", "60", "--database", url, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr
        assert process.stdout
        assert b"no tables yet in " in process.stderr.readline()
        assert lrq_process("init", "--site", "paris", "--database", url).returncode == 0
        assert done in process.stdout.readline().decode()
    finally:
        process.kill()
        process.communicate()


def test_a_wait_for_the_tables_in_vain_ends_with_the_cure(lrq: Command):
    done = lrq(
        "send", "--to", "tokyo", "--client", "policy", "--await-tables", "0.01", "-d", "sqlite:///missing.db", "x"
    )
    assert done.code == 1
    assert "waiting up to 0.01 s" in done.err.splitlines()[0]
    assert "run `lrq init`" in done.err.splitlines()[-1]
