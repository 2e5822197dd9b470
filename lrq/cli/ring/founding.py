"""Found the member of this server."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from lr_server.ring.founding import found, founding_key, record_of
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from lrq.cli.place import OpenSite, settings_of
from lrq.cli.ring.members import ask_members, ring_of
from queues.errors import ConfigurationError


class Founded(NamedTuple):
    """The founder at this server, and the key for the others."""

    rank: int
    key: str


def found_member(config: Path | None, here: OpenSite, key: str | None) -> Founded:
    """Let the store of this server count as a founder's; without *key*, make one.

    Raises `ConfigurationError` for a second founder without a key, for a used database, and while the ring works.
    """
    settings = settings_of(config, here)
    setting = ring_of(settings)
    if key is None and setting.rank:
        raise ConfigurationError("the server has another rank than 0: found rank 0 first, and give its key with --key")
    working = [view for view in ask_members(settings) if view.status is not None and view.status.generation]
    if working:
        raise ConfigurationError(
            f"the ring works already, as rank {working[0].rank} tells: run `lrq serve`, which copies the log"
        )
    known = key or founding_key()
    with closing(TokenStore(here.engine, TOKEN, StoreWitness(setting.witness))) as store:
        found(store, record_of(known, setting.rank))
    return Founded(setting.rank, known)
