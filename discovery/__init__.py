"""Find receive queues, the owner of a site, and the sites that it can reach."""

import lrq_packages  # noqa: F401 - says in one sentence which other package has the name of one of ours
