"""Prepare an empty store for a member of a ring whose disk is lost."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

import queues
from discovery.ring_status import RingStatus
from lr_server import Settings
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from lr_server.ring_setting import RingSetting
from lrq.cli.place import engine_of, locate
from lrq.cli.ring.members import MemberView, ask_members, ring_of
from queues.database.schema import SCHEMA, version
from queues.database.transactions import reading
from queues.errors import ConfigurationError, NotInitializedError


class EmptyStore(NamedTuple):
    """The member of a ring that copies the log next, and its database."""

    site: str
    rank: int
    database: str


def prepare_empty_store(config: Path | None, member: str) -> EmptyStore:
    """Make the empty tables of *member*, the member of the settings here; may be repeated.

    Raises `ConfigurationError` for another member, while this one works, without both others, and for a used store.
    """
    place = locate(config, None, None)
    settings = Settings.load(config)
    ring = ring_of(settings)
    rank = ring.rank_of(member)
    if rank != ring.rank:
        raise ConfigurationError(
            f"the settings here are those of {ring.shown(ring.rank)}: run the command at {ring.shown(rank)}"
        )
    _check_members(ring, ask_members(settings))
    with engine_of(place, must_exist=False) as engine:
        _refuse_older_tables(engine, place.shown)
        queues.initialize(engine, site_id=settings.site_id)
        with closing(TokenStore(engine, TOKEN, StoreWitness(ring.witness))) as store:
            if store.record() is not None or store.history().end:
                raise ConfigurationError(
                    f"{place.shown} has the store of a member, and `lrq serve` goes on with it: "
                    "move the file away to begin with an empty one"
                )
    return EmptyStore(settings.site_id, rank, place.shown)


def _refuse_older_tables(engine: Engine, shown: str) -> None:
    """Raise `ConfigurationError` for tables of another schema: a migration would change the store that they hold."""
    try:
        with reading(engine) as connection:
            found = version(connection)
    except NotInitializedError:
        return
    if found is not None and found != SCHEMA:
        raise ConfigurationError(
            f"{shown} has tables of schema {found} already, and stays as it is: "
            "move the file away to begin with an empty store"
        )


def _check_members(ring: RingSetting, views: Sequence[MemberView]) -> None:
    """Raise `ConfigurationError` unless this member is away, and both others work, of which one leads."""
    if views[ring.rank].status is not None:
        raise ConfigurationError(f"{ring.shown(ring.rank)} works: stop its server before you replace the disk")
    others: list[RingStatus] = []
    for view in views:
        if view.rank == ring.rank:
            continue
        if view.status is None:
            raise ConfigurationError(
                f"{ring.shown(view.rank)} does not answer, and a new store needs both others: start it first, "
                f"then run this again ({view.problem})"
            )
        others.append(view.status)
    if sorted(each.role for each in others) != ["following", "leading"]:
        roles = ", ".join(f"{ring.shown(each.rank)} is {each.role}" for each in others)
        raise ConfigurationError(f"of the others one must lead and one must follow, but {roles}: wait, or mend that")
