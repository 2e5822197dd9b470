"""An application cannot transmit in the file of a ring's member, whose log the other members must have too."""

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from queues.errors import SetupError
from tests.lr_server.ring.stores import begin, new_store, take, transaction


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_transmit_is_refused_and_changes_nothing(site: Engine):
    store = new_store(site, rank=2)
    sender = RoutingQueueSenderClient("policy")
    refused = pytest.raises(SetupError, match=r"belongs to rank 2 of the ring paris.*use lr_client\.producer")
    with Session(site) as session, session.begin(), refused:
        sender.transmit_log_entry_message(session, b"no", ["tokyo"])
    begin(2, store)
    assert [row.payload for row in take([transaction(b"yes")], store).rows] == [b"yes"]
    assert [row.id for content in store.read(0, 10) for row in content.rows] == [1]
