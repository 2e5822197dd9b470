"""The server of a site: sends its log to the peers and receives their logs."""

import lr_server.libraries  # noqa: F401 - fails if a library of the server is not installed
import lrq_packages  # noqa: F401 - fails if another package has the name of one of ours
from discovery.status_types import SiteStatus
from lr_server.server import LogReplicationServer
from lr_server.settings import Settings
from lr_server.topology.providers import PeerList, TopologyProvider

__all__ = ["LogReplicationServer", "PeerList", "Settings", "SiteStatus", "TopologyProvider"]
