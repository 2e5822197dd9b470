"""The command line: `lrq --help`."""

import os

# gRPC's own lines on stderr bypass the log and its format; lrq logs the same errors itself.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
