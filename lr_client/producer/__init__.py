"""Producers: send into the log of a site without a database of their own (docs/producers.md)."""

import lr_client.producer.libraries  # noqa: F401 - fails if the library of producers is not installed
from lr_client.producer.answers import Produced
from lr_client.producer.asynchronous import AsyncProducer
from lr_client.producer.encoding import ProducerMessage
from lr_client.producer.rings import AsyncRingsProducer, RingsProducer
from lr_client.producer.sync import Producer

__all__ = ["AsyncProducer", "AsyncRingsProducer", "Produced", "Producer", "ProducerMessage", "RingsProducer"]
