"""Check the database: reachable, of a supported version, with the tables of this site, and fit for a server."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy
from sqlalchemy import Engine

import queues
from lrq.cli.doctor import followed, postgresql, sqlite_file
from lrq.cli.doctor.bounded import guarded
from lrq.cli.doctor.clock import skew
from lrq.cli.doctor.findings import Finding, ok, problem, told, warning
from lrq.cli.place import CONNECT_SECONDS, SitePlace, require_file
from lrq.cli.views.status_tables import owner_words
from lrq.cli.words import (
    LOGGED_AGAIN,
    NO_ALTERING,
    SERVE,
    altered_by_others,
    emptied_by_a_crash,
    hidden_from_the_role,
    plural,
    some,
)
from queues.clock import now_us
from queues.database import dialects, schema, servers, urls
from queues.database.hidden_rows import SHOW_ALL
from queues.database.server_rights import missing_rights, powerless_functions
from queues.database.transactions import mapped_errors, reading
from queues.errors import LrqError
from queues.send_log.ring.member_rows import rank_at

_CHECK: Final = "database"
#: The most rights that one sentence names.
_NAMED: Final = 4


def look(place: SitePlace, connections: int) -> Iterator[Finding]:
    """Yield the findings about the database at *place*, where a server of the site opens up to *connections*.

    Without a connection, there is one problem only.
    """
    is_sqlite = urls.is_sqlite(place.url)
    with plain_engine(place) as engine:
        with mapped_errors(engine), engine.connect():
            pass
        yield ok(_CHECK, f"{place.shown} can be reached")
        yield from guarded(_CHECK, lambda: _kind(engine, connections, is_sqlite=is_sqlite))
        if not is_sqlite:  # the clock of a file is the machine's clock
            yield from guarded("clock", lambda: [_clock(engine)])
        yield from guarded("tables", lambda: _tables(engine, place))


@contextmanager
def plain_engine(place: SitePlace) -> Iterator[Engine]:
    """Yield an engine that changes nothing: one of `queues.create_engine` puts a SQLite file into WAL mode."""
    require_file(place.url)
    limit = dialects.named(place.url.get_backend_name()).connect_within(place.url, CONNECT_SECONDS)
    # Only that function finds tables in a schema of their own.
    create = sqlalchemy.create_engine if urls.is_sqlite(place.url) else queues.create_engine
    engine = create(place.url, connect_args=dict(limit))
    try:
        yield engine
    finally:
        engine.dispose()


def _kind(engine: Engine, connections: int, *, is_sqlite: bool) -> list[Finding]:
    with mapped_errors(engine):
        return list(sqlite_file.look(engine) if is_sqlite else postgresql.look(engine, connections))


def _clock(engine: Engine) -> Finding:
    with reading(engine) as connection:
        before = now_us()
        there = dialects.of(connection).now_us(connection)
        after = now_us()
    return skew("the database", there, before, after)


def _tables(engine: Engine, place: SitePlace) -> Iterator[Finding]:
    """Yield the findings about the tables; the later ones only if the tables belong to this site."""
    try:
        with reading(engine) as connection:
            found = schema.require(connection, site_id=place.site)
            stands = schema.version(connection)
    except LrqError as error:
        yield told("tables", error)
        return
    yield ok("tables", f"the tables have schema {stands} and belong to site {found.site_id}")
    yield from guarded("tables", lambda: _whole(engine))
    if not urls.is_sqlite(place.url):
        yield from guarded("rights", lambda: _rights(engine))
    yield from guarded("followed tables", lambda: followed.look(engine))
    yield from guarded("server", lambda: [_server(engine)])


def _whole(engine: Engine) -> Iterator[Finding]:
    with reading(engine) as connection:
        without, unlogged = schema.untriggered(connection), schema.unlogged(connection)
        hiding, altering = schema.hiding(connection), schema.altering(connection)
    if hiding:
        yield problem("row level security", hidden_from_the_role(hiding), SHOW_ALL)
    if altering:
        yield problem("triggers", altered_by_others(altering), NO_ALTERING)
    if unlogged:
        cure = f"{LOGGED_AGAIN.format(unlogged[0])}, the same for the others"
        yield problem("durability", emptied_by_a_crash(unlogged), cure)
    if without:
        yield problem(
            "ordering",
            f"the ordering trigger does not always fire on {', '.join(without)}, so entries may not be sent",
            f"ALTER TABLE {without[0]} ENABLE ALWAYS TRIGGER lrq_sequence_commit, the same for the others",
        )
        return
    schema.check(engine)
    with reading(engine) as connection:
        refusing = schema.refusing(connection)
    if refusing:
        named = ", ".join(refusing[:_NAMED])
        cure = "drop these columns, give them a default, or let them be NULL"
        yield problem(
            "tables", f"columns that are not of lrq refuse its rows, because they need a value: {named}", cure
        )
    yield ok("ordering", "no table, no column and no trigger is missing")


def _rights(engine: Engine) -> Iterator[Finding]:
    with reading(engine) as connection:
        missing, powerless = missing_rights(connection), powerless_functions(connection)
    if powerless:
        cure = f"ALTER FUNCTION {powerless[0]} OWNER TO the tables' owner, the same for the others"
        yield problem("functions", f"{some(powerless)} run without the rights of the tables' owner, so they fail", cure)
    if not missing:
        yield ok("rights", "the role may do all that a server does")
        return
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    yield problem("rights", f"the role lacks {', '.join(missing[:_NAMED])}{more}", "grant these rights to the role")


def _rank(engine: Engine) -> int | None:
    with reading(engine) as connection:
        return rank_at(connection)


def _server(engine: Engine) -> Finding:
    view = servers.look(engine)
    if view.sequencer is None:
        if not view.living and (rank := _rank(engine)) is not None:
            return ok("server", f"the member of rank {rank} does not lead now; `lrq ring status` asks all members")
        if not view.living:
            return warning("server", "no server works for this site now", SERVE)
        words = "no server holds the lease of the sequencer, so the ticks may stop"
        return warning("server", words, "look again, then at the servers' logs")
    if len(view.living) < 2:
        return ok("server", "a server works for this site")
    led = Counter(row.server for row in view.ranges)
    shares = ", ".join(f"{owner_words(name)} leads {plural(led[name], 'range')}" for name in view.living)
    ticks = owner_words(view.sequencer.owner)
    return ok("server", f"{len(view.living)} servers share the work: {shares}; {ticks} takes the ticks")
