"""The server of the metrics gives its port back if no thread can start."""

import pytest
from prometheus_client import CollectorRegistry

from lr_server.metrics.registry_server import RegistryServer
from queues.errors import UsageError
from queues.thread_lack import PYTHON_ENDS
from tests.threads_refused import AT_ITS_LIMIT, ENDING, no_further_thread


def served(address: str = "127.0.0.1:0") -> str:
    """Serve at *address* for a moment, and return it with the real port."""
    server = RegistryServer(address, CollectorRegistry())
    server.stop()
    return server.address


@pytest.mark.parametrize(("words", "kind"), [(ENDING, UsageError), (AT_ITS_LIMIT, RuntimeError)])
def test_the_port_is_free_again_if_no_thread_starts(words: str, kind: type[Exception]) -> None:
    address = served()
    # The error keeps the server alive, so no collection of garbage closes its socket.
    with no_further_thread("lrq-metrics", words=words), pytest.raises(kind) as caught:
        served(address)
    assert served(address) == address
    assert str(caught.value) == (PYTHON_ENDS if words == ENDING else words)
