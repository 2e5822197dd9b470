"""Two sites of real processes with TLS, whose every output is kept."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trustme
from sqlalchemy import Engine, make_url, text

import queues
from tests.certificates import issued
from tests.clusters import Cluster, cluster
from tests.lrq.cli.command import Command, ended, lrq_process, spawn
from tests.system.leaks import Secret, secrets_of_key
from tests.waiting import eventually

#: The password of the databases in full, and the part that stands in it as in a URL.
_CORE = "Pw7f3aQdb52kVz"
PASSWORD = f"a/{_CORE}@b:c"
_QUICK: dict[str, Any] = {
    "heartbeat_seconds": 0.2, "snapshot_poll_seconds": 0.1, "idle_poll_seconds": 0.05, "retry_cap_seconds": 0.5,
    "slow_retry_seconds": 0.5, "max_payload_bytes": 4_096, "tls_verify_site": True,
}  # fmt: skip
#: Commands that take over logs or read the standard input have a process of their own.
_OWN_PROCESS = ("serve", "work", "produce")


@dataclass
class Databases:
    """Gives the URLs of the sites, and takes the databases away for a moment."""

    urls: dict[str, str]
    made: Cluster | None = None

    def wrong(self, site: str) -> str:
        """Return a URL at which no site is found: with a wrong password, or no file."""
        url = make_url(self.urls[site])
        wrong = url.set(database=f"{url.database}.none") if self.made is None else url.set(password=f"no-{PASSWORD}")
        return wrong.render_as_string(hide_password=False)

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Stop PostgreSQL during the block. A file of SQLite stays."""
        if self.made is not None:
            self.made.halt()
        yield
        if self.made is not None:
            self.made.start()


@contextmanager
def databases(dialect: str, folder: Path) -> Iterator[Databases]:
    """Make a database for paris and one for tokyo; on PostgreSQL, a role with the password owns them."""
    if dialect == "sqlite":
        yield Databases({site: f"sqlite:///{folder / f'{site}.db'}" for site in ("paris", "tokyo")})
        return
    with cluster() as made:
        admin = queues.create_engine(made.url(), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f"CREATE ROLE shop LOGIN PASSWORD '{PASSWORD.replace(':', chr(92) + ':')}'"))
            for site in ("paris", "tokyo"):
                connection.execute(text(f"CREATE DATABASE {site} OWNER shop"))
        admin.dispose()
        (made.folder / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        made.reload(work_mem="4MB")
        url = make_url(made.url()).set(username="shop", password=PASSWORD)
        shown = {site: url.set(database=site).render_as_string(hide_password=False) for site in ("paris", "tokyo")}
        yield Databases(shown, made)


@dataclass
class SweptWorld:
    """Starts processes and commands, and keeps each output under a name."""

    folder: Path
    databases: Databases
    stack: ExitStack
    command: Command
    outputs: dict[str, str] = field(default_factory=dict)
    secrets: list[Secret] = field(default_factory=lambda: [Secret("password", _CORE)])
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _authority: trustme.CA = field(default_factory=trustme.CA)

    def engine(self, site: str) -> Engine:
        """Return an engine of a site, as its application has one."""
        made = queues.create_engine(self.databases.urls[site])
        self.stack.callback(made.dispose)
        return made

    def certificate(self, name: str) -> Path:
        """Issue a certificate for *name*; return the folder with its files."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        files = issued(self._authority, folder, "127.0.0.1", common_name=name)
        self.secrets += secrets_of_key(files.key.read_text())
        return folder

    def configure(self, site: str, **options: Any) -> Path:
        """Write the file of a site, and return its path."""
        folder = self.certificate(site)
        settings = {
            **_QUICK, "site_id": site, "database_url": self.databases.urls[site], "listen": ["tls://127.0.0.1:0"],
            "metrics": "127.0.0.1:0", "tls_certificate": str(folder / "site.pem"),
            "tls_key": str(folder / "site.key"), "tls_authority": str(folder / "authority.pem"),
            **{name: value for name, value in options.items() if not isinstance(value, dict)},
        }  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        for name, table in options.items():
            if isinstance(table, dict):
                lines += [f"[{name}]", *(f"{json.dumps(key)} = {toml(value)}" for key, value in table.items())]
        file = self.folder / f"{site}.toml"
        file.write_text("\n".join([*lines, ""]))
        return file

    def start(self, name: str, *arguments: str) -> str:
        """Start a process that works until `stop`; return the first line on its stdout."""
        out, err = self._files(name)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            self._running[name] = process = spawn(
                *arguments, "--log-level", "debug", stdout=stdout, stderr=stderr, cwd=self.folder
            )
        self.stack.callback(lambda: (process.kill(), process.wait(30)))
        eventually(lambda: "\n" in out.read_text() or process.poll() is not None)
        assert process.poll() is None, err.read_text()
        return out.read_text().partition("\n")[0]

    def log(self, name: str) -> str:
        """Return the log of a process until now."""
        return self._files(name)[1].read_text()

    def logs(self) -> str:
        """Return the ends of all logs, for the output of a failed test."""
        return "\n".join(f"--- {name}\n{self.log(name)[-4_000:]}" for name in self._running)

    def stop(self) -> None:
        """End all processes in order, and keep their outputs."""
        for name, process in self._running.items():
            process.terminate()
            out, err = self._files(name)
            ended(process, err)
            self.outputs[f"{name}, stdout"], self.outputs[f"{name}, log"] = out.read_text(), err.read_text()

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command until its end; keep and return its output."""
        name = "lrq " + " ".join(arguments)
        self.outputs[name] = self.silently(*arguments, stdin=stdin)
        return self.outputs[name]

    def silently(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command until its end, and return its output without keeping it."""
        given = [str(self.folder / each) if each.endswith(".toml") else each for each in arguments]
        if arguments[0] not in _OWN_PROCESS and not stdin:
            done_here = self.command(*given)
            return done_here.out + done_here.err
        done = lrq_process(*given, stdin=stdin)
        return done.stdout.decode() + done.stderr.decode()

    def page(self, address: str, path: str) -> httpx.Response:
        """Get a page of the metrics' address, and keep the page."""
        answer = httpx.get(f"http://{address}{path}", timeout=30)
        self.outputs[f"{address}{path} {answer.status_code}"] = answer.text
        return answer

    def refused(self, call: Callable[[], object]) -> None:
        """Call a function that must raise an error; keep the words of the error."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the error is the result
            self.outputs[f"error {len(self.outputs)}"] = repr(error)
        else:
            raise AssertionError("no error")

    def _files(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.out", self.folder / f"{name}.err"


def toml(value: Any) -> str:
    """Return a value as TOML: a text, or a table of lists."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)
