"""A stream moves its marks over numbers without entries, unless the source has lost them meanwhile."""

import pytest
from sqlalchemy import Engine, select

from discovery import registry
from lr_client.spark.receive.consume import settle
from queues.database.tables.consumers import consumers
from queues.database.transactions import reading
from tests.lr_client.spark.sources.taking import Stream
from tests.lr_client.subscriber.arrivals import Arrivals


def consumed(sink: Engine) -> int:
    with sink.connect() as connection:
        return connection.execute(select(consumers.c.seq)).scalar_one()


@pytest.mark.parametrize("lost", [1, 2])
def test_marks_stay_when_the_sink_goes_back_at_that_moment(sink: Engine, tokyo: Arrivals, lost: int) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        assert [stream.texts() for _ in range(2)] == [["1"], []]
        end = tokyo.tick(gap=lost)
        with reading(sink) as connection:
            (queue,) = registry.find(connection, tokyo.client)
        view, lease = stream.intake._look(queue), stream.intake._lease()
        assert view.received.boundary_seq == end
        tokyo.go_back(end - 1)
        settle(sink, queue, lease, view)
        assert consumed(sink) == 1
        # An entry that takes the lost number is read.
        tokyo.tick([b"instead"])
        assert stream.texts() == ["instead"]


def test_marks_move_over_numbers_without_entries(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        assert [stream.texts() for _ in range(2)] == [["1"], []]
        end = tokyo.tick(gap=3)
        assert stream.texts() == []
    assert consumed(sink) == end
