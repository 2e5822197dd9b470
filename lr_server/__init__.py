"""The server of a site: sends its log to the peers and receives their logs.

`import lr_server` loads none of its names: each is loaded at its first use.
"""

from typing import TYPE_CHECKING, Final

import lr_server.libraries  # noqa: F401 - fails if a library of the server is not installed
import lrq_packages

if TYPE_CHECKING:
    from discovery.site_status import SiteStatus
    from lr_server.server import LogReplicationServer
    from lr_server.settings import Settings
    from lr_server.topology.providers import PeerList, TopologyProvider

_HOMES: Final = {
    "LogReplicationServer": "lr_server.server",
    "PeerList": "lr_server.topology.providers",
    "Settings": "lr_server.settings",
    "SiteStatus": "discovery.site_status",
    "TopologyProvider": "lr_server.topology.providers",
}

__all__ = ["LogReplicationServer", "PeerList", "Settings", "SiteStatus", "TopologyProvider"]

if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name
    __getattr__ = lrq_packages.lazy(__name__, _HOMES)
