"""A fault run by hand: `python -m tests.faults.run --seed 7 --moments 200 --dialect postgresql --servers 3`."""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, make_url, text

import queues
from tests.clusters import Cluster
from tests.faults.plan import LEASE_SECONDS
from tests.faults.rampage import Verdict, rampage
from tests.faults.ring_rampage import ring_rampage
from tests.faults.rings_rampage import RingsPlan, rings_rampage
from tests.faults.site_plan import SINKS, SOURCE, SitePlan
from tests.faults.site_rampage import site_rampage

#: The servers of all sites share one PostgreSQL, and each may open 20 connections.
CONNECTIONS = 400


@contextmanager
def databases(dialect: str, folder: Path, *names: str) -> Iterator[list[str]]:
    """Give the URLs of empty databases with *names*; for PostgreSQL, start a server for them."""
    if dialect == "sqlite":
        yield [f"sqlite:///{folder / name}.db" for name in names]
        return
    server = Cluster(folder / "postgresql")
    try:
        server.configure(max_connections=str(CONNECTIONS))
        url = make_url(server.url())
        admin = queues.create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for name in names:
                connection.execute(text(f"CREATE DATABASE {name}"))
        admin.dispose()
        yield [url.set(database=name).render_as_string(hide_password=False) for name in names]
    finally:
        server.stop()


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a run, by default those of the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--moments", type=int, default=50)
    options.add_argument("--dialect", choices=["sqlite", "postgresql"], action="append")
    options.add_argument("--servers", type=int, default=1, help="servers of the source; above 1, two for each sink")
    options.add_argument("--lease", type=float, default=LEASE_SECONDS, help="seconds, with several servers")
    options.add_argument("--ring", action="store_true", help="three servers of a ring; only on SQLite")
    options.add_argument("--rings", type=int, default=0, help="with --ring: so many rings on three machines")
    options.add_argument("--resize", action="store_true", help="with --rings: twice the rings in the middle of the run")
    options.add_argument("--acknowledging", type=int, default=1, choices=[1, 2], help="followers, with --ring")
    options.add_argument("--keep", action="store_true", help="keep databases and logs of successful runs too")
    chosen = options.parse_args(given)
    if chosen.acknowledging > 1 and (chosen.rings or not chosen.ring):
        options.error("--acknowledging is for one ring: give --ring without --rings")
    return chosen


def main() -> int:
    chosen = arguments()
    print(f"seed {chosen.seed}", flush=True)
    verdicts = [
        run(
            dialect,
            seed=chosen.seed,
            moments=chosen.moments,
            servers=chosen.servers,
            lease=chosen.lease,
            keep=chosen.keep,
            ring=chosen.ring,
            rings=RingsPlan(chosen.rings, chosen.resize) if chosen.rings else None,
            acknowledging=chosen.acknowledging,
        )
        for dialect in (["sqlite"] if chosen.ring or chosen.rings else chosen.dialect or ["sqlite", "postgresql"])
    ]
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def run(
    dialect: str,
    *,
    seed: int,
    moments: int,
    servers: int,
    lease: float,
    keep: bool,
    ring: bool,
    rings: RingsPlan | None = None,
    acknowledging: int = 1,
) -> Verdict:
    """Make one run in a new folder and print its verdict; keep and name the folder unless all was well."""
    folder = Path(tempfile.mkdtemp(prefix="lrq-faults-"))
    kept = True
    try:
        verdict = _judged(
            folder, dialect,
            seed=seed, moments=moments, servers=servers, lease=lease, ring=ring, rings=rings,
            acknowledging=acknowledging,
        )  # fmt: skip
        print(verdict, flush=True)
        kept = keep or not verdict.ok
    finally:
        if kept:
            print(f"databases and logs: {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return verdict


def _judged(
    folder: Path,
    dialect: str,
    *,
    seed: int,
    moments: int,
    servers: int,
    lease: float,
    ring: bool,
    rings: RingsPlan | None,
    acknowledging: int,
) -> Verdict:
    if rings:
        return rings_rampage(partial(_new_site, folder), folder, seed=seed, moments=moments, plan=rings)
    if ring:
        return ring_rampage(partial(_new_site, folder), folder, seed=seed, moments=moments, acknowledging=acknowledging)
    if servers > 1:
        sites = (SOURCE, *SINKS)
        with databases(dialect, folder, *sites) as urls:
            urls_of = dict(zip(sites, urls, strict=True))
            plan = SitePlan(str(folder), urls_of, seed, servers=servers, lease_seconds=lease)
            return site_rampage(plan, moments)
    with databases(dialect, folder, "source", "sink") as (source, sink):
        return rampage(folder, source, sink, seed=seed, moments=moments)


def _new_site(folder: Path, name: str) -> Engine:
    engine = queues.create_engine(f"sqlite:///{folder / name}.db")
    queues.initialize(engine, site_id=name)
    return engine


if __name__ == "__main__":
    sys.exit(main())
