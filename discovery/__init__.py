"""Who is there: receive queues, the owner of a site, the sites it knows."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
