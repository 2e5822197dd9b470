"""The table `[ring]` as people write it, with names of members and of the ring, and a folder. Pure.

A server knows the place of its store as `site_id` and `database_url`, and its member by a rank.
"""

from collections.abc import Mapping
from pathlib import PurePath

from sqlalchemy import URL

from queues.errors import ConfigurationError, InvalidNameError
from queues.names import site_id


def with_ring_place(values: Mapping[str, object]) -> dict[str, object]:
    """Return settings with `site_id` and `database_url` from `name` and `folder` of their table `ring`.

    Raises `ConfigurationError` where `site_id` or `database_url` are written too, and differ.
    """
    table = values.get("ring")
    if not isinstance(table, Mapping) or not {"name", "folder"} & table.keys():
        return dict(values)
    ring = dict(table)
    settled = {**values, "ring": ring}
    if name := _text(ring, "name"):
        settled["site_id"] = _alone(values, "site_id", name, "name")
    if folder := _text(ring, "folder"):
        site = settled.get("site_id")
        if not isinstance(site, str):
            raise ConfigurationError("ring.folder needs the id of the site for its file: write site_id or ring.name")
        url = URL.create("sqlite", database=str(PurePath(folder) / f"{site}.db")).render_as_string()
        settled["database_url"] = _alone(values, "database_url", url, "folder")
    return settled


def with_named_members(values: object) -> object:
    """Return the table `ring` with a rank in place of `member`, if `members` is a table of names and endpoints.

    The first name has rank 0. Raises `ConfigurationError` for a malformed name, or a `member` that is no name.
    """
    if not isinstance(values, Mapping):
        return values
    ring, members = dict(values), values.get("members")
    member = _text(ring, "member")
    if not isinstance(members, Mapping):
        if member:
            raise ConfigurationError("ring.member is a name: write `members` as a table of names, or write `rank`")
        return ring
    names = [_name(each) for each in members]
    if member not in names and (member or "rank" not in ring):
        raise ConfigurationError(f"ring.member is {member!r}: write the name of this server, {' or '.join(names)}")
    rank = names.index(member) if member else ring["rank"]
    if ring.setdefault("rank", rank) != rank:
        raise ConfigurationError(f"ring.member {member} has rank {rank}, but ring.rank is {ring['rank']}: write one")
    return {**ring, "members": list(members.values()), "names": names}


def _name(written: object) -> str:
    try:
        return site_id(str(written))
    except InvalidNameError as malformed:
        raise ConfigurationError(f"ring.members: the name {malformed}") from None


def _text(ring: dict[str, object], key: str) -> str:
    """Remove *key* from *ring*, and return its text; empty if the key is absent."""
    value = ring.pop(key, "")
    if not isinstance(value, str):
        raise ConfigurationError(f"ring.{key} must be a string, not {type(value).__name__}")
    return value


def _alone(values: Mapping[str, object], setting: str, told: str, key: str) -> str:
    written = values.get(setting)
    if written is not None and written != told:
        raise ConfigurationError(f"{setting} is {written!r}, but ring.{key} stands for {told!r}: write one of them")
    return told
