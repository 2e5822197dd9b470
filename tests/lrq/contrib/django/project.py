"""The example project of Django over one database, run by processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

from sqlalchemy import Engine, text

from tests.forked import Popen

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "django"
_DELIVERY = Path(__file__).with_name("delivery.py")


class Project:
    """Runs commands of the project as one site; `engine` reads the project's database."""

    def __init__(self, engine: Engine, site: str, **variables: str) -> None:
        url = engine.url
        self.engine = engine
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, EXAMPLE))),
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "SHOP_SITE": site,
            "SHOP_DATABASE": str(url.database),
            **variables,
        }
        if engine.dialect.name == "postgresql":
            login = f"{url.username or ''}:{url.password or ''}".rstrip(":")
            host, port = url.host or "", url.port or url.query.get("port")
            self.environment["SHOP_DATABASE"] = f"postgresql://{login}@{host}{f':{port}' * bool(port)}/{url.database}"
            self.environment["PGHOST"] = str(url.query.get("host", ""))

    def start(self, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start `manage.py` with *words*."""
        return self._start("manage.py", *words, stderr=stderr)

    def _start(self, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        command = [sys.executable, *words]
        return Popen(command, cwd=EXAMPLE, env=self.environment, stdout=subprocess.PIPE, stderr=stderr, text=True)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self._start(*words)
        try:
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def manage(self, *words: str) -> str:
        """Run `manage.py` with *words*, which must succeed; return its output."""
        done = self.outcome(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def outcome(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `manage.py` with *words* to its end."""
        return self._run("manage.py", *words)

    def python(self, code: str) -> list[str]:
        """Run *code* in the project; return its lines of output."""
        done = self._run("-c", f"import django; django.setup()\n{code}")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def deliver(self, *codes: str) -> list[str]:
        """Deliver the received entries to the listener of each of *codes*; see `delivery.py` for the lines."""
        done = self._run(str(_DELIVERY), *codes)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def sql(self, statement: str) -> list[object]:
        """Return the first column of a statement's rows."""
        with self.engine.begin() as connection:
            result = connection.execute(text(statement))
            return list(result.scalars()) if result.returns_rows else []
