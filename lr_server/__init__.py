"""The server of a site: replicates its log to the peers, and takes theirs."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
from lr_server.server import LogReplicationServer
from lr_server.settings import Settings

__all__ = ["LogReplicationServer", "Settings"]
