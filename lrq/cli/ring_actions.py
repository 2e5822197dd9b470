"""Found the member of this server, and ask all members of a ring."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from discovery.ring_status import RingStatus
from lr_server.ring.codec import RingAddress
from lr_server.ring.founding import found, founding_key, record_of
from lr_server.ring.look import look_at
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from lr_server.ring_setting import RingSetting
from lr_server.settings import Settings
from lrq.cli.place import OpenSite, settings_of
from queues.errors import ConfigurationError, LrqError
from queues.words import in_words


class Founded(NamedTuple):
    """The founder at this server, and the key for the others."""

    rank: int
    key: str


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of the ring: its state, or the problem why it tells none."""

    rank: int
    endpoint: str
    status: RingStatus | None
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return an item of `members`."""
        told = None if self.status is None else self.status.as_json()
        return {"rank": self.rank, "endpoint": self.endpoint, "status": told, "problem": self.problem}


def found_member(config: Path | None, here: OpenSite, key: str | None) -> Founded:
    """Let the store of this server count as a founder's; without *key*, make one.

    Raises `ConfigurationError` for a second founder without a key, for a used database, and while the ring works.
    """
    settings = settings_of(config, here)
    setting = _ring(settings)
    if key is None and setting.rank:
        raise ConfigurationError("the server has another rank than 0: found rank 0 first, and give its key with --key")
    working = [view for view in members(config, here) if view.status is not None and view.status.generation]
    if working:
        raise ConfigurationError(
            f"the ring works already, as rank {working[0].rank} tells: run `lrq serve`, which copies the log"
        )
    known = key or founding_key()
    with closing(TokenStore(here.engine, TOKEN, StoreWitness(setting.witness))) as store:
        found(store, record_of(known, setting.rank))
    return Founded(setting.rank, known)


def members(config: Path | None, here: OpenSite) -> list[MemberView]:
    """Ask all members of the ring, by rank."""
    settings = settings_of(config, here)
    return [_look(settings, rank, endpoint) for rank, endpoint in enumerate(_ring(settings).members)]


def ring_trouble(views: Sequence[MemberView]) -> str:
    """Return why the ring takes no entries, or which member does not follow; empty if all is well. Pure."""
    states = [view.status for view in views if view.status is not None]
    if not any(state.role == "leading" and state.leader == state.rank for state in states):
        return "no member leads, so the ring takes no entries"
    for view in views:
        if view.status is None:
            return f"rank {view.rank} does not answer: {view.problem}"
        if view.status.trouble:
            return f"rank {view.rank}: {view.status.trouble}"
    return ""


def _look(settings: Settings, rank: int, endpoint: str) -> MemberView:
    try:
        found = look_at(RingAddress(settings.site_id, TOKEN), endpoint, settings.credentials)
    except LrqError as error:
        return MemberView(rank, endpoint, None, in_words(error))
    if found.rank != rank:
        return MemberView(rank, endpoint, None, f"this endpoint belongs to rank {found.rank}: correct [ring]")
    return MemberView(rank, endpoint, found)


def _ring(settings: Settings) -> RingSetting:
    if settings.ring is None:
        raise ConfigurationError("the server has no ring: write a table [ring] in lrq.toml (docs/running-a-ring.md)")
    return settings.ring
