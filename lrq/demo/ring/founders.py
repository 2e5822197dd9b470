"""The beginning of the ring: three databases, whose empty stores count at once."""

from contextlib import closing

import queues
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring.founding import found, founding_key, record_of
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from lrq.demo.ring.listener import NumberTables
from lrq.demo.ring.places import MEMBERS, RING, SINK, RingPlaces


def prepare(places: RingPlaces) -> None:
    """Write the settings, create all tables, and found the members as `lrq init` and `lrq ring init` do."""
    key = founding_key()
    for rank in RANKS:
        places.write_config(rank)
        _found(places, rank, key)
    engine = queues.create_engine(places.database(SINK))
    queues.initialize(engine, site_id=SINK)
    NumberTables.metadata.create_all(engine)
    engine.dispose()


def _found(places: RingPlaces, rank: int, key: str) -> None:
    """Found the member of *rank*; all members need the same *key*."""
    engine = queues.create_engine(places.database(MEMBERS[rank]))
    queues.initialize(engine, site_id=RING)
    with closing(TokenStore(engine, TOKEN, StoreWitness(places.witness(MEMBERS[rank])))) as store:
        found(store, record_of(key, rank))
    engine.dispose()
