"""The subscriptions of `lrq work`: one for each listener, until a signal or until everything is applied."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from discovery.ownership import OwnershipState
from lr_client.subscriber.function_listener import FunctionListener
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.options import chosen_options
from lr_client.subscriber.subscription import Subscription, subscribe
from lr_server.metrics.registry_server import RegistryServer
from lrq.cli.process.stop_signals import StopSignals
from lrq.cli.waits.applied import QueueProgress, Target, look, targets
from lrq.cli.worker_metrics import ClientCounter, WorkerMetrics
from queues.clock import SYSTEM_CLOCK, Clock
from queues.logs import logger
from queues.names import ClientName
from queues.patience import patiently

log = logger("lrq.work")


class Worker:
    """Runs listeners in threads of this process; the main thread calls `until_stopped` or `until_applied`."""

    def __init__(
        self,
        engine: Engine,
        listeners: Mapping[ClientName, RoutingQueueListener],
        *,
        metrics: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare one subscription for each client; *metrics* is an address `host:port`."""
        self._engine = engine
        self._listeners = listeners
        self._address = metrics
        self._clock = clock
        self._metrics = WorkerMetrics()
        self._counters = {client: ClientCounter(self._metrics, client) for client in listeners}
        self._server: RegistryServer | None = None
        self._subscriptions: dict[ClientName, Subscription] = {}
        self._told: dict[ClientName, OwnershipState] = {}

    def __enter__(self) -> Self:
        """Serve the metrics and subscribe; raises the errors of `subscribe`."""
        if self._address is not None:
            self._server = self._metrics.serve(self._address)
        try:
            for client, listener in self._listeners.items():
                begun = subscribe(self._engine, listener, observer=self._counters[client], clock=self._clock)
                self._subscriptions[client] = begun
                self._metrics.show_active(client, lambda begun=begun: begun.active)  # type: ignore[misc]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the worker."""
        self.close()

    def close(self) -> None:
        """Wait for the end of running calls of the listeners, and release their leases."""
        for subscription in self._subscriptions.values():
            subscription.close()
        if self._server is not None:
            self._server.stop()

    @property
    def metrics_address(self) -> str | None:
        """The address of the metrics, with the real port; None without metrics."""
        return None if self._server is None else self._server.address

    @property
    def applied(self) -> dict[ClientName, int]:
        """The number of entries and snapshot rows that this process has applied, by client."""
        return {client: counter.total for client, counter in self._counters.items()}

    def until_stopped(self, signals: StopSignals) -> None:
        """Work until a signal."""
        while not signals.asked:
            self._tell()
            signals.rest()

    def until_applied(self, signals: StopSignals, wanted: Sequence[Target], timeout: float) -> None:
        """Work until all of *wanted* is applied or an entry was refused too often; at most *timeout* seconds.

        Raises `StoreUnavailableError` if the database cannot be used for `PATIENCE` seconds.
        """
        progress = patiently(lambda: look(self._engine, wanted), lambda _: None, clock=self._clock)
        deadline = self._clock.monotonic() + timeout
        while not signals.asked:
            self._tell()
            found = progress()
            if (found is not None and _is_over(found)) or self._clock.monotonic() >= deadline:
                return
            signals.rest()

    def standing_by(self) -> list[str]:
        """Return why subscriptions stand by, one sentence each."""
        states = self._subscriptions.values()
        return [each.reason for each in states if each.state is OwnershipState.STANDING_BY]

    def _tell(self) -> None:
        for client, subscription in self._subscriptions.items():
            state = subscription.state
            if self._told.get(client) is not state and state is not OwnershipState.NOT_STARTED:
                self._told[client] = state
                log.info("subscriber", client=client, state=state.value, reason=subscription.reason)


def present_targets(engine: Engine, listeners: Mapping[ClientName, RoutingQueueListener]) -> list[Target]:
    """Return the entries of now for `Worker.until_applied`; call before the worker begins."""
    return targets(engine, [(client, _tries(listener)) for client, listener in listeners.items()])


def _is_over(found: Sequence[QueueProgress]) -> bool:
    return all(each.reached for each in found) or any(each.refusal for each in found)


def _tries(listener: RoutingQueueListener) -> int:
    own = listener.options if isinstance(listener, FunctionListener) else {}
    return int(chosen_options(own, {})["max_tries"])
