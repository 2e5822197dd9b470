"""The tables that clients follow by `lrq_follow`, and their rows."""

from collections.abc import Mapping
from typing import NamedTuple


class FollowedTable(NamedTuple):
    """A followed table, with the client and the other arguments of `lrq_follow`.

    `destinations` is empty if a column of each row names them.
    """

    table: str
    client: str
    destinations: tuple[str, ...]
    origin: str


class FollowedRows(NamedTuple):
    """A query of one followed table, as for `sqlalchemy.text`.

    The only column `entry` has a row's JSON, in the bytes of the insert that the trigger would send.
    """

    query: str
    parameters: Mapping[str, str]
