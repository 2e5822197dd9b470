"""How who transmits on PostgreSQL tells a server that dozes, and nobody else (DESIGN 2).

A NOTIFY makes commits wait for each other, so it must not come with every transaction. A server that has nothing to do
holds a lock that each transaction tries to share: who gets it is silent and keeps it to its end, who does not notifies.
The lock goes with the server's connection, so that nobody notifies a server that is gone.
"""

from typing import Final

# One lock for each set of tables in the database.
_LOCK = "1819439474, 'lrq_site'::regclass::oid::int"
#: Whether the transaction may be silent; for the statement that transmits.
MAY_BE_SILENT: Final = f"pg_try_advisory_xact_lock_shared({_LOCK})"
#: Tells a server that dozes, when the transaction commits.
TELL: Final = "SELECT pg_notify('lrq_transmitted', '')"
LISTEN: Final = "LISTEN lrq_transmitted"
DOZE: Final = f"SELECT pg_try_advisory_lock({_LOCK})"
WAKE: Final = f"SELECT pg_advisory_unlock({_LOCK})"
#: Ends an earlier server's connection that still dozes, as its process may be stopped: all would tell it for ever.
TAKE_OVER: Final = (
    "SELECT count(pg_terminate_backend(l.pid))::text FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.classid = 1819439474::oid AND l.objid = 'lrq_site'::regclass::oid AND l.mode = 'ExclusiveLock'"
    " AND l.granted AND a.usename = current_user AND l.pid <> pg_backend_pid()"
)
