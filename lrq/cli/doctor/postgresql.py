"""Check the settings of a PostgreSQL server on which lrq depends."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine, text

from lrq.cli.doctor.findings import Finding, ok, problem, told, warning
from lrq.cli.health import blocking
from lrq.cli.words import duration, plural
from queues.database.followers import standby_facts
from queues.database.room import full_disk
from queues.database.standby_facts import StandbyFacts
from queues.send_log.opening import segment_reads
from queues.send_log.trim_blockers import TrimBlocker

_CHECK: Final = "postgresql"
_STANDBYS: Final = "standbys"
#: The oldest version that lrq supports.
OLDEST: Final = 14


@dataclass(frozen=True, slots=True)
class PostgresqlFacts:
    """The facts that matter; `role_connections` is -1 for a role without a limit of its own.

    `others` are connections in use now, without those of lrq's servers. PostgreSQL ends a connection that rests for
    `idle_ms`, if that is not 0.
    """

    version: int
    prepared: int
    connections: int
    others: int
    role_connections: int
    in_recovery: bool
    read_only: bool
    idle_ms: int


def look(engine: Engine, needed: int) -> Iterator[Finding]:
    """Yield the findings about the server of *engine*; a server of lrq opens up to *needed* connections there."""
    with engine.connect() as connection:
        row = connection.execute(_FACTS).one()
        standbys = standby_facts(connection)
        blockers = segment_reads(connection).blockers(connection)
    yield from _room(full_disk(engine))
    yield from judge(PostgresqlFacts(*row), needed)
    yield from judge_blockers(blockers)
    if standbys is not None:
        yield from judge_standbys(standbys)


def lacking_room(engine: Engine) -> list[str]:
    """Return one sentence if the disk of the database is full."""
    return [f"{found.sentence}: {found.cure}" for found in _room(full_disk(engine))]


def _room(words: str) -> Iterator[Finding]:
    if words:
        yield problem(_CHECK, f"the disk of the database is full ({words})", "free some space there")


def judge(facts: PostgresqlFacts, needed: int) -> Iterator[Finding]:
    """Yield a finding for each fact that hinders a server with *needed* connections, and one for the version. Pure."""
    if facts.version < OLDEST:
        yield problem(_CHECK, f"PostgreSQL {facts.version} is too old", f"upgrade to PostgreSQL {OLDEST} or later")
    else:
        yield ok(_CHECK, f"PostgreSQL {facts.version} is supported")
    if facts.in_recovery or facts.read_only:
        what = "a standby" if facts.in_recovery else "read-only for this role"
        yield problem(_CHECK, f"the database is {what}, so no server can write", "name the primary in database_url")
    if facts.prepared:
        yield warning(
            _CHECK,
            f"max_prepared_transactions is {facts.prepared}, so no commit notifies an idle server",
            "set it to 0 unless the application prepares transactions, or lower idle_poll_seconds",
        )
    if facts.connections - facts.others < needed:
        yield warning(
            _CHECK,
            f"PostgreSQL admits {facts.connections} connections, of which others use {facts.others}, and a server of "
            f"this site opens up to {needed}",
            "raise max_connections of PostgreSQL, or lower max_connections of this site (9 or more)",
        )
    if 0 <= facts.role_connections < needed:
        yield warning(
            _CHECK,
            f"the role may have {facts.role_connections} connections, and a server of this site opens up to {needed}",
            f"ALTER ROLE with CONNECTION LIMIT {needed} for each server, or lower max_connections of this site",
        )
    if facts.idle_ms:
        yield warning(
            _CHECK,
            f"PostgreSQL ends a connection that rests for {duration(facts.idle_ms / 1000)} (idle_session_timeout), "
            "so work of a quiet site fails now and then, and is repeated",
            "ALTER ROLE … SET idle_session_timeout = 0 for the roles of lrq",
        )


def judge_blockers(blockers: Iterable[TrimBlocker]) -> Iterator[Finding]:
    """Yield a warning for each transaction that keeps trim from tables of the log. Pure."""
    for each in blockers:
        yield warning("trim", blocking(each), each.cure)


def judge_standbys(facts: StandbyFacts) -> Iterator[Finding]:
    """Yield a finding if commits wait for standby servers, or if they should; none without such servers. Pure."""
    if facts.why_commits_wait:
        yield told(_STANDBYS, facts.why_commits_wait)
    elif facts.present is None:
        yield warning(
            _STANDBYS,
            f"each commit waits for {plural(facts.asked, 'standby server')}, and the role may not see how many follow",
            "GRANT pg_read_all_stats to the role as a superuser",
        )
    elif facts.asked:
        yield ok(_STANDBYS, f"{facts.present} of at least {plural(facts.asked, 'synchronous standby server')} follow")


_FACTS: Final = text("""
    SELECT current_setting('server_version_num')::int / 10000,
      current_setting('max_prepared_transactions')::int,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
      (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND pid <> pg_backend_pid()
        AND application_name !~ '^lrq .*(server|control)$'),
      (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
      pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool,
      coalesce((SELECT setting::bigint FROM pg_settings WHERE name = 'idle_session_timeout'), 0)
""")
