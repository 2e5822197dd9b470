"""Importing this module checks that the libraries of the server are installed, which senders do not need."""

import lrq_packages  # noqa: F401 - fails if another package has the name of one of ours
from queues.extras import require_libraries

require_libraries("server", "the server", ("grpc", "grpc_health", "pydantic_settings", "prometheus_client", "psutil"))
