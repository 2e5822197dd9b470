"""A sink with an application's table, and subscriptions that are closed at the end."""

from collections.abc import Iterator
from typing import Protocol

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import Subscription, subscribe
from tests.conftest import NewSite
from tests.lr_client.subscriber.applying import Apply, applied
from tests.lr_client.subscriber.arrivals import Arrivals


class Follow(Protocol):
    """Subscribes, with options that make tests quick."""

    def __call__(self, listener: RoutingQueueListener, engine: Engine | None = None, **options: object) -> Subscription:
        """Return the subscription of *listener* at the sink or at *engine*."""
        ...


@pytest.fixture
def sink(new_site: NewSite) -> Engine:
    engine = new_site("lima")
    applied.metadata.create_all(engine)
    return engine


@pytest.fixture
def tokyo(sink: Engine) -> Arrivals:
    return Arrivals(sink)


@pytest.fixture
def listener() -> Apply:
    return Apply()


@pytest.fixture
def follow(sink: Engine) -> Iterator[Follow]:
    made: list[Subscription] = []

    def begin(listener: RoutingQueueListener, engine: Engine | None = None, **options: object) -> Subscription:
        quick = {"poll_interval": 0.02, "backoff": 0.01, "max_backoff": 0.05} | options
        made.append(subscribe(engine if engine is not None else sink, listener, **quick))
        return made[-1]

    yield begin
    for subscription in made:
        subscription.close()
