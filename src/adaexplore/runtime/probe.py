"""Asks a service on this machine for its health: `python -m adaexplore.runtime.probe HOST:PORT`.

For container engines, which know no gRPC probes. The address is the service's `--probe-listen`, which speaks plaintext.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

LIMIT_S = 10.0


def is_serving(address: str) -> bool:
    """Return whether the service at `HOST:PORT` says SERVING within a few seconds."""
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def main(argv: Sequence[str]) -> int:
    """Return 0 if the service is healthy, 1 if it is not, and 2 if the one argument is missing."""
    if len(argv) != 1:
        print("usage: python -m adaexplore.runtime.probe HOST:PORT", file=sys.stderr)
        return 2
    return 0 if is_serving(argv[0]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
