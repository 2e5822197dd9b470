"""The calls of gRPC that Python has not freed."""

import gc

import grpc


def living_calls() -> list[object]:
    """Return the calls that wait for a lock when they are freed: streams, and calls with a future."""
    return [each for each in gc.get_objects() if isinstance(each, grpc.RpcError) and isinstance(each, grpc.Future)]
