"""Wake a server with NOTIFY; transactions pay for NOTIFY only while the load is light.

A NOTIFY makes commits wait for each other, so a busy server polls instead. An idle server, or one under a light load
(`lr_server.source.pacing.may_notify`), holds an exclusive advisory lock. Each transmitting transaction tries to share
the lock. A transaction with the lock sends nothing, and keeps the lock until its end. A transaction without the lock
sends a NOTIFY. The lock ends with the server's connection, so a dead server gets no NOTIFY. See docs/design.md,
"Wakeups".

PostgreSQL cannot prepare a transaction with a NOTIFY, and a transaction does not tell beforehand how it ends.
So a server never takes the lock where transactions may be prepared, but polls.
"""

from typing import Final

# Each set of lrq's tables in the database has a separate lock.
_LOCK = "1819439474, 'lrq_site'::regclass::oid::int"
#: Tries to share the lock, within the statement that transmits; true means that no NOTIFY is needed.
IS_SILENT: Final = f"pg_try_advisory_xact_lock_shared({_LOCK})"
#: Wakes an idle server when the transaction commits.
NOTIFY: Final = "SELECT pg_notify('lrq_transmitted', '')"
LISTEN: Final = "LISTEN lrq_transmitted"
# CASE, because AND may take the lock first. The setting changes with a restart of PostgreSQL only.
BEGIN_NOTIFY: Final = (
    "SELECT CASE WHEN current_setting('max_prepared_transactions')::int > 0 THEN false"
    f" ELSE pg_try_advisory_lock({_LOCK}) END"
)
WAKE: Final = f"SELECT pg_advisory_unlock({_LOCK})"
#: Ends an earlier server's connection with the lock: if that process is stopped, all transactions would notify it.
TAKE_OVER: Final = (
    "SELECT count(pg_terminate_backend(l.pid))::text FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.classid = 1819439474::oid AND l.objid = 'lrq_site'::regclass::oid AND l.mode = 'ExclusiveLock'"
    " AND l.granted AND a.usename = current_user AND l.pid <> pg_backend_pid()"
)
