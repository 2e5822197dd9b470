"""The command line: `lrq --help`."""

import os

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours

# gRPC writes lines of its own past the log, in its own format; what they say is told in ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
