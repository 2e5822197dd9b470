"""The parts of an application that may log in to the database as roles of their own. Pure."""

from enum import StrEnum


class Grantee(StrEnum):
    """A part, for `lrq grant ROLE --as PART`."""

    #: Transmits, waits for replication, requests snapshots and provides them.
    SENDER = "sender"
    #: Follows receive queues, waits for application and shows the status.
    SUBSCRIBER = "subscriber"
    #: Serves the site.
    SERVER = "server"
    #: Reads the views of links and their lag, and no table.
    MONITOR = "monitor"
