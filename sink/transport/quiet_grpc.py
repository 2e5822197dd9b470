"""Load gRPC without its own lines on stderr: they bypass the application's log, where lrq logs the same errors.

gRPC reads the variable once, when it is loaded. Neither other processes nor an application that has loaded gRPC or set
the variable itself are affected.
"""

import os
import sys
from typing import Final

from queues.extras import require_libraries

_VARIABLE: Final = "GRPC_VERBOSITY"

require_libraries("server", "the way to other sites", ("grpc",))
if "grpc" not in sys.modules and _VARIABLE not in os.environ:
    os.environ[_VARIABLE] = "NONE"
    try:
        import grpc  # noqa: F401 - only loaded here
    finally:
        del os.environ[_VARIABLE]
