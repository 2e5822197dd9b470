"""Snapshots of an application: requests, the pinned cut, providers and the transmitter."""
