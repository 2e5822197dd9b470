"""Refuse each renewal of a lease, as a revoked right does, while all other work of the database goes on."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

_FUNCTION = "CREATE FUNCTION no_renewals() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no_renewals'; END $$"


@contextmanager
def renewals_refused(site: Engine) -> Iterator[None]:
    """Let a trigger refuse each change of the leases, with the word `no_renewals`."""
    is_sqlite = site.dialect.name == "sqlite"
    body = "BEGIN SELECT RAISE(ABORT, 'no_renewals'); END"
    with site.begin() as connection:
        if not is_sqlite:
            connection.exec_driver_sql(_FUNCTION)
            body = "FOR EACH ROW EXECUTE FUNCTION no_renewals()"
        connection.exec_driver_sql(f"CREATE TRIGGER no_renewals BEFORE UPDATE ON lrq_leases {body}")
    yield
    with site.begin() as connection:
        connection.exec_driver_sql(f"DROP TRIGGER no_renewals {'' if is_sqlite else 'ON lrq_leases'}")
