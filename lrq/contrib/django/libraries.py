"""Importing this module checks that Django is installed, which no extra of lrq brings."""

import lrq_packages  # noqa: F401 - fails if another package has the name of one of ours
from queues.extras import require_package

require_package("lrq.contrib.django", "django", "django>=5.2,<6")
