"""Clients of the evaluator API; errors are `adaexplore.runtime.errors.ServiceError`s."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import cast

from adaexplore.client.base import AsyncClient, SyncClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.evaluator.v1 import evaluator_pb2_grpc as rpc


class AsyncEvaluatorClient(AsyncClient):
    """Asynchronous client of the evaluator API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "evaluator"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.EvaluatorServiceStub(self._channel)

    async def describe_task(self, request: pb.DescribeTaskRequest, timeout_s: float | None = None) -> pb.DescribeTaskResponse:
        """Loads, traces and audits a task."""
        return cast(pb.DescribeTaskResponse, await self._unary(self._stub.DescribeTask, request, timeout_s))

    def evaluate_kernel(
        self, request: pb.EvaluateKernelRequest, timeout_s: float | None = None
    ) -> AsyncIterator[pb.EvaluateKernelResponse]:
        """Judges one candidate: progress messages, then exactly one Evaluation."""
        return self._stream(self._stub.EvaluateKernel, request, timeout_s)

    def profile_kernel(self, request: pb.ProfileKernelRequest, timeout_s: float | None = None) -> AsyncIterator[pb.ProfileKernelResponse]:
        """Judges one candidate, and profiles it if it passes: progress messages, then exactly one Evaluation."""
        return self._stream(self._stub.ProfileKernel, request, timeout_s)

    async def compile_kernel(self, request: pb.CompileKernelRequest, timeout_s: float | None = None) -> pb.CompileKernelResponse:
        """Compiles one stand-alone Triton kernel for a target; a kernel that does not compile is a successful call."""
        return cast(pb.CompileKernelResponse, await self._unary(self._stub.CompileKernel, request, timeout_s))

    async def list_devices(self, request: pb.ListDevicesRequest, timeout_s: float | None = None) -> pb.ListDevicesResponse:
        """Lists the devices of this replica."""
        return cast(pb.ListDevicesResponse, await self._unary(self._stub.ListDevices, request, timeout_s))

    def get_artifact(self, request: pb.GetArtifactRequest, timeout_s: float | None = None) -> AsyncIterator[pb.GetArtifactResponse]:
        """Streams one artefact in chunks below 1 MiB."""
        return self._stream(self._stub.GetArtifact, request, timeout_s)


class EvaluatorClient(SyncClient):
    """Synchronous client of the evaluator API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "evaluator"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.EvaluatorServiceStub(self._channel)

    def describe_task(self, request: pb.DescribeTaskRequest, timeout_s: float | None = None) -> pb.DescribeTaskResponse:
        """Loads, traces and audits a task."""
        return cast(pb.DescribeTaskResponse, self._unary(self._stub.DescribeTask, request, timeout_s))

    def evaluate_kernel(self, request: pb.EvaluateKernelRequest, timeout_s: float | None = None) -> Iterator[pb.EvaluateKernelResponse]:
        """Judges one candidate: progress messages, then exactly one Evaluation."""
        return self._stream(self._stub.EvaluateKernel, request, timeout_s)

    def profile_kernel(self, request: pb.ProfileKernelRequest, timeout_s: float | None = None) -> Iterator[pb.ProfileKernelResponse]:
        """Judges one candidate, and profiles it if it passes: progress messages, then exactly one Evaluation."""
        return self._stream(self._stub.ProfileKernel, request, timeout_s)

    def compile_kernel(self, request: pb.CompileKernelRequest, timeout_s: float | None = None) -> pb.CompileKernelResponse:
        """Compiles one stand-alone Triton kernel for a target; a kernel that does not compile is a successful call."""
        return cast(pb.CompileKernelResponse, self._unary(self._stub.CompileKernel, request, timeout_s))

    def list_devices(self, request: pb.ListDevicesRequest, timeout_s: float | None = None) -> pb.ListDevicesResponse:
        """Lists the devices of this replica."""
        return cast(pb.ListDevicesResponse, self._unary(self._stub.ListDevices, request, timeout_s))

    def get_artifact(self, request: pb.GetArtifactRequest, timeout_s: float | None = None) -> Iterator[pb.GetArtifactResponse]:
        """Streams one artefact in chunks below 1 MiB."""
        return self._stream(self._stub.GetArtifact, request, timeout_s)
