"""A subscriber whose connections have another encoding than UTF-8 applies the entries of a client with any name."""

from contextlib import closing

import pytest
from sqlalchemy import create_engine

from lr_client import subscribe
from tests.system.world import Recorder, World
from tests.waiting import eventually

CLIENT = "größe"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_subscriber_with_another_encoding_finds_its_own_lease_and_applies_entries(world: World):
    world.begun("paris", "tokyo", client=CLIENT)
    world.link("paris", "tokyo", initial_sync="log", clients=[CLIENT])
    heard = Recorder(CLIENT)
    engine = create_engine(world.site("tokyo").url, connect_args={"options": "-c client_encoding=LATIN1"})
    with closing(subscribe(engine, heard, poll_interval=0.05)):
        world.transmit("paris", b"1", b"2", to=["tokyo"], client=CLIENT)
        eventually(lambda: heard.log("paris") == [b"1", b"2"])
    engine.dispose()
