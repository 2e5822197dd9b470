"""The rows of a table that a client follows by `lrq_follow`."""

from collections.abc import Mapping
from typing import NamedTuple


class FollowedRows(NamedTuple):
    """A query of one followed table, as for `sqlalchemy.text`.

    The only column `entry` has a row's JSON, in the bytes of the insert that the trigger would send.
    """

    query: str
    parameters: Mapping[str, str]
