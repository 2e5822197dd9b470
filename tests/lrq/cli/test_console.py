"""`lrq console`: its options and their refusals, and a console in a process of its own."""

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest
from sqlalchemy import Engine

import queues
from queues.errors import ConfigurationError
from queues.thread_lack import NO_THREAD
from tests.forked import Popen
from tests.house.typed_lines import lines, words_of
from tests.lrq.cli.command import Command, ended
from tests.threads_refused import no_further_thread
from tests.waiting import eventually

httpx = pytest.importorskip("httpx")
#: The page installs the console, then starts it for two sites.
_, ON_THE_PAGE = lines(__name__, "docs/console.md", "pip install")


def url(site: Engine) -> str:
    return site.url.render_as_string(hide_password=False)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_console_beyond_this_machine_needs_a_token(site: Engine, lrq: Command):
    done = lrq("console", "--database", url(site), "--listen", "0.0.0.0:0")
    assert done.code == 2
    assert done.error.startswith("0.0.0.0 is no loopback address: give --token-file")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("listen", ["8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000"])
def test_a_wrong_address_is_one_sentence(site: Engine, lrq: Command, listen: str):
    done = lrq("console", "--database", url(site), "--listen", listen)
    assert (done.code, done.error) == (2, f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:8080")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_empty_or_missing_token_file_is_one_sentence(site: Engine, lrq: Command, elsewhere):
    (elsewhere / "token").write_text("\n")
    assert "is empty" in lrq("console", "--database", url(site), "--token-file", "token").error
    assert "cannot be read" in lrq("console", "--database", url(site), "--token-file", "none").error
    (elsewhere / "token").write_text("short\n")
    assert "too short" in lrq("console", "--database", url(site), "--token-file", "token").error


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_site_named_twice_is_refused(site: Engine, lrq: Command):
    for place in url(site), "postgresql+psycopg://lrq@/app?host=/run/paris":
        assert "is named twice" in lrq("console", "--database", place, "--database", place).error


@pytest.mark.parametrize("place", ["host=/run/{}", "host=db.{}.example", "options=-csearch_path%3D{}"])
def test_two_sites_that_differ_in_the_query_of_the_url_are_two(lrq: Command, place: str):
    urls = [f"postgresql+psycopg://lrq@/app?{place.format(site)}" for site in ("paris", "tokyo")]
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        options = "--listen", f"127.0.0.1:{taken.getsockname()[1]}"
        done = lrq("console", *(word for each in urls for word in ("--database", each)), *options)
    assert "cannot listen" in done.error


@pytest.mark.processes
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_address_in_use_is_one_sentence(site: Engine, lrq: Command):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = lrq("console", "--database", url(site), "--listen", place)
    words = f"the console cannot listen at {place}: choose another port with --listen"
    assert (done.code, done.error) == (1, words)


def test_a_console_without_a_thread_names_the_cure():
    from lrq.console.process import serve_pages

    with no_further_thread("lrq-room"), pytest.raises(ConfigurationError) as caught:
        serve_pages({}, "127.0.0.1", 0, {})
    assert str(caught.value) == NO_THREAD


@pytest.mark.processes
def test_a_console_serves_several_sites_until_it_is_stopped(new_site, elsewhere):
    for name in ("paris", "tokyo"):
        place = url(new_site(name))
        (elsewhere / f"{name}.toml").write_text(f'site_id = "{name}"\ndatabase_url = "{place}"\n')
    words = words_of(ON_THE_PAGE, {":8080": ":0"})
    with Popen([sys.executable, "-m", "lrq", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.match(r"console at (http://127\.0\.0\.1:\d+)/$", process.stdout.readline())
            assert found
            page = eventually(lambda: (text := httpx.get(found[1]).text).count("no server works") == 2 and text)
            assert "paris" in page
            assert "tokyo" in page
            assert "read-only" in page
        finally:
            process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


@pytest.mark.processes
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_console_shows_a_site_whose_file_is_missing_until_it_is_there(site: Engine, new_site, elsewhere):
    lost = elsewhere / "lost.db"
    words = ["console", "--database", url(site), "--database", f"sqlite:///{lost}", "--listen", "127.0.0.1:0"]
    with Popen([sys.executable, "-m", "lrq", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            place = process.stdout.readline().removeprefix("console at ").strip()
            eventually(lambda: f"there is no database {lost}" in (page := httpx.get(place).text) and "paris" in page)
            assert not lost.exists()
            queues.initialize(made := queues.create_engine(f"sqlite:///{lost}"), site_id="lima")
            made.dispose()
            eventually(lambda: "lima" in httpx.get(place).text, timeout=60)
        finally:
            process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


@pytest.mark.processes
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_lines_of_the_web_server_are_json_too(site: Engine):
    words = ["console", "--database", url(site), "--listen", "127.0.0.1:0", "--log-format", "json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Popen([sys.executable, "-m", "lrq", *words], **pipes) as process:
        try:
            found = re.match(r"console at http://127\.0\.0\.1:(\d+)/$", process.stdout.readline())
            assert found
            with closing(socket.create_connection(("127.0.0.1", int(found[1])))) as asking:
                asking.sendall(b"no request\r\n\r\n")
                assert b"400 Bad Request" in asking.recv(1_000)
            told = json.loads(process.stderr.readline())
        finally:
            process.send_signal(signal.SIGTERM)
        assert (told["level"], told["logger"], told["event"]) == (
            "warning", "uvicorn.error", "Invalid HTTP request received.",
        )  # fmt: skip
        assert ended(process) == 0


@pytest.mark.processes
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_by_file", [True, False], ids=["by its file", "by a database"])
def test_a_file_with_a_ring_gives_a_page_about_its_members(new_site, elsewhere, is_by_file: bool):
    members = [f"ipc://{elsewhere}/m{rank}" for rank in range(3)]
    (elsewhere / "lrq.toml").write_text(
        f'site_id = "paris"\ndatabase_url = "{url(new_site("paris"))}"\nlisten = ["{members[1]}"]\n'
        f'ingest = true\n[producers."*"]\n[ring]\nmembers = {json.dumps(members)}\nrank = 1\n'
        f'witness = "{elsewhere / "witness"}"\n'
    )
    words = [sys.executable, "-m", "lrq", "console", "--listen", "127.0.0.1:0"]
    words += [] if is_by_file else ["--database", url(new_site("tokyo"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            place = process.stdout.readline().removeprefix("console at ").strip()
            assert ('href="/ring"' in httpx.get(place).text) is is_by_file
            if is_by_file:
                eventually(lambda: all(member in httpx.get(f"{place}ring").text for member in members))
        finally:
            process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
