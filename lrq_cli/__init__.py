"""The command line: `lrq --help`."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
