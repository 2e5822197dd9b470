"""A process that stands still in a transaction about leases holds up the others for a short time only."""

import time

import pytest
from sqlalchemy import Engine, text

from lr_server.connections import ServerEngines, open_engines
from queues.database import servers
from queues.database.transactions import writing_briefly
from queues.errors import StoreUnavailableError

pytestmark = pytest.mark.usefixtures("impatient_database")
_LIMIT = "SHOW idle_in_transaction_session_timeout"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def engines_of(site: Engine, lease_seconds: float) -> ServerEngines:
    return open_engines(site.url.render_as_string(hide_password=False), "paris", 20, lease_seconds)


@pytest.mark.parametrize(("lease_seconds", "limit"), [(1.0, "250ms"), (3.0, "750ms"), (10.0, "2s")])
def test_the_limit_of_a_brief_transaction_fits_the_lease(site: Engine, lease_seconds: float, limit: str) -> None:
    engines = engines_of(site, lease_seconds)
    with writing_briefly(engines.control) as connection:
        assert connection.execute(text(_LIMIT)).scalar_one() == limit
    with writing_briefly(engines.work) as connection:
        assert connection.execute(text(_LIMIT)).scalar_one() == "2s"
    engines.dispose()


def test_a_server_that_stops_while_it_registers_does_not_hold_up_a_claim_until_rows_expire(site: Engine) -> None:
    stopping, other = engines_of(site, 2.0), engines_of(site, 2.0)
    servers.register(other.control, "other", [], count=4, term=60)
    waited: list[float] = []
    with pytest.raises(StoreUnavailableError):
        _claim_while_another_stands_still(stopping.control, other.control, waited)
    assert waited[0] < 1.5
    for engines in (stopping, other):
        engines.dispose()


def _claim_while_another_stands_still(stopping: Engine, other: Engine, waited: list[float]) -> None:
    with writing_briefly(stopping) as connection:
        # The first statement of `servers.register`, before the process stops.
        connection.execute(text("UPDATE lrq_generations SET ranges = ranges"))
        began = time.monotonic()
        servers.claim(other, "other", servers.look(other).ranges)
        waited.append(time.monotonic() - began)
        connection.execute(text("SELECT 1"))
