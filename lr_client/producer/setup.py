"""The arguments of a producer, checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_limit, is_whole
from lr_client.producer.endpoint_order import EndpointOrder
from lr_client.producer.machine import ProducerMachine
from queues import names
from queues.errors import ConfigurationError
from queues.names import ClientName
from sink.transport.channels import Lane
from sink.transport.credentials import Credentials, Pems, needed
from sink.transport.endpoints import TlsEndpoint

#: Most requests of one producer without an answer.
MAX_IN_FLIGHT: Final = 1_024
#: Most bytes of these requests.
MAX_IN_FLIGHT_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """Bounds of one producer.

    Attributes:
        payload_bytes: the most bytes of one payload
        in_flight: the most requests without an answer
        in_flight_bytes: the most bytes of these requests; a single request may be larger
    """

    payload_bytes: int = MAX_PAYLOAD_BYTES
    in_flight: int = MAX_IN_FLIGHT
    in_flight_bytes: int = MAX_IN_FLIGHT_BYTES


@dataclass(frozen=True, slots=True)
class ProducerSetup:
    """The checked arguments of a producer."""

    client: ClientName
    producer: str
    order: EndpointOrder
    machine: ProducerMachine
    pems: Pems | None
    payload_bytes: int

    def lane(self, *, is_slow: bool) -> Lane:
        """Return the kind of connection: a silent server is noticed sooner if there are others.

        Any server is noticed later on a line that *is_slow*, where a question waits behind a large request.
        """
        if is_slow:
            return Lane.SLOW_LOG
        return Lane.REPLACEABLE if len(self.order.endpoints) > 1 else Lane.LOG


def set_up(
    endpoints: str,
    client: str,
    producer: str,
    tls: tuple[str | Path | None, str | Path | None, str | Path | None],
    limits: ProducerLimits,
) -> ProducerSetup:
    """Check the arguments of a producer; *tls* are the files of certificate, key and authority.

    Raises `InvalidNameError` for a malformed name, and `ConfigurationError` for malformed endpoints, unusable limits
    and unusable files.
    """
    order = EndpointOrder(endpoints)
    for name, limit in (("max_in_flight", limits.in_flight), ("max_in_flight_bytes", limits.in_flight_bytes)):
        if not is_whole(limit) or limit < 1:
            raise ConfigurationError(f"{name} must be a whole number above 0, not {limit!r}")
    return ProducerSetup(
        names.client_name(client),
        names.producer_name(producer),
        order,
        ProducerMachine(limits.in_flight, limits.in_flight_bytes),
        _pems(order, tls),
        checked_limit(limits.payload_bytes),
    )


def _pems(order: EndpointOrder, tls: tuple[str | Path | None, str | Path | None, str | Path | None]) -> Pems | None:
    certificate, key, authority = tls
    secured = [each for each in order.endpoints if isinstance(each, TlsEndpoint)]
    if not secured:
        return None
    credentials = None
    if certificate is not None and key is not None and authority is not None:
        credentials = Credentials(Path(certificate), Path(key), Path(authority))
    return needed(credentials, secured[0]).read()
