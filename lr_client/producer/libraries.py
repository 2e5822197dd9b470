"""Importing this module checks that the library of producers is installed, which other applications do not need."""

import lrq_packages  # noqa: F401 - fails if another package has the name of one of ours
from queues.extras import require_libraries

require_libraries("producer", "a producer", ("grpc",))
