"""Clients of the generator API; errors are `adaexplore.runtime.errors.ServiceError`s."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import cast

from adaexplore.client.base import AsyncClient, SyncClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.generator.v1 import generator_pb2_grpc as rpc


class AsyncGeneratorClient(AsyncClient):
    """Asynchronous client of the generator API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "generator"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.GeneratorServiceStub(self._channel)

    def generate_kernel(
        self, request: pb.GenerateKernelRequest, timeout_s: float | None = None
    ) -> AsyncIterator[pb.GenerateKernelResponse]:
        """Writes one candidate: progress messages, then exactly one result."""
        return self._stream(self._stub.GenerateKernel, request, timeout_s)

    async def distill_skill(self, request: pb.DistillSkillRequest, timeout_s: float | None = None) -> pb.DistillSkillResponse:
        """Words a rule from one failure by a model."""
        return cast(pb.DistillSkillResponse, await self._unary(self._stub.DistillSkill, request, timeout_s))

    async def judge_duplicate(self, request: pb.JudgeDuplicateRequest, timeout_s: float | None = None) -> pb.JudgeDuplicateResponse:
        """Asks a model whether a rule says what another one says already."""
        return cast(pb.JudgeDuplicateResponse, await self._unary(self._stub.JudgeDuplicate, request, timeout_s))

    async def synthesize_task(self, request: pb.SynthesizeTaskRequest, timeout_s: float | None = None) -> pb.SynthesizeTaskResponse:
        """Asks a model for a new task in the manner of the seed tasks."""
        return cast(pb.SynthesizeTaskResponse, await self._unary(self._stub.SynthesizeTask, request, timeout_s))

    async def estimate_usage(self, request: pb.EstimateUsageRequest, timeout_s: float | None = None) -> pb.EstimateUsageResponse:
        """Says what a generation may use at most and what it will probably use, without asking a model."""
        return cast(pb.EstimateUsageResponse, await self._unary(self._stub.EstimateUsage, request, timeout_s))

    async def get_usage(self, request: pb.GetUsageRequest, timeout_s: float | None = None) -> pb.GetUsageResponse:
        """Returns what a request has used so far."""
        return cast(pb.GetUsageResponse, await self._unary(self._stub.GetUsage, request, timeout_s))

    async def claim_request(self, request: pb.ClaimRequestRequest, timeout_s: float | None = None) -> pb.ClaimRequestResponse:
        """Takes a prompt of the provider `external` to answer it, or prolongs the lease of one that was taken."""
        return cast(pb.ClaimRequestResponse, await self._unary(self._stub.ClaimRequest, request, timeout_s))

    async def submit_reply(self, request: pb.SubmitReplyRequest, timeout_s: float | None = None) -> pb.SubmitReplyResponse:
        """Answers a prompt that was taken."""
        return cast(pb.SubmitReplyResponse, await self._unary(self._stub.SubmitReply, request, timeout_s))

    async def list_models(self, request: pb.ListModelsRequest, timeout_s: float | None = None) -> pb.ListModelsResponse:
        """Lists the models that can be named in a request, without paying for anything."""
        return cast(pb.ListModelsResponse, await self._unary(self._stub.ListModels, request, timeout_s))


class GeneratorClient(SyncClient):
    """Synchronous client of the generator API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "generator"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.GeneratorServiceStub(self._channel)

    def generate_kernel(self, request: pb.GenerateKernelRequest, timeout_s: float | None = None) -> Iterator[pb.GenerateKernelResponse]:
        """Writes one candidate: progress messages, then exactly one result."""
        return self._stream(self._stub.GenerateKernel, request, timeout_s)

    def distill_skill(self, request: pb.DistillSkillRequest, timeout_s: float | None = None) -> pb.DistillSkillResponse:
        """Words a rule from one failure by a model."""
        return cast(pb.DistillSkillResponse, self._unary(self._stub.DistillSkill, request, timeout_s))

    def judge_duplicate(self, request: pb.JudgeDuplicateRequest, timeout_s: float | None = None) -> pb.JudgeDuplicateResponse:
        """Asks a model whether a rule says what another one says already."""
        return cast(pb.JudgeDuplicateResponse, self._unary(self._stub.JudgeDuplicate, request, timeout_s))

    def synthesize_task(self, request: pb.SynthesizeTaskRequest, timeout_s: float | None = None) -> pb.SynthesizeTaskResponse:
        """Asks a model for a new task in the manner of the seed tasks."""
        return cast(pb.SynthesizeTaskResponse, self._unary(self._stub.SynthesizeTask, request, timeout_s))

    def estimate_usage(self, request: pb.EstimateUsageRequest, timeout_s: float | None = None) -> pb.EstimateUsageResponse:
        """Says what a generation may use at most and what it will probably use, without asking a model."""
        return cast(pb.EstimateUsageResponse, self._unary(self._stub.EstimateUsage, request, timeout_s))

    def get_usage(self, request: pb.GetUsageRequest, timeout_s: float | None = None) -> pb.GetUsageResponse:
        """Returns what a request has used so far."""
        return cast(pb.GetUsageResponse, self._unary(self._stub.GetUsage, request, timeout_s))

    def claim_request(self, request: pb.ClaimRequestRequest, timeout_s: float | None = None) -> pb.ClaimRequestResponse:
        """Takes a prompt of the provider `external` to answer it, or prolongs the lease of one that was taken."""
        return cast(pb.ClaimRequestResponse, self._unary(self._stub.ClaimRequest, request, timeout_s))

    def submit_reply(self, request: pb.SubmitReplyRequest, timeout_s: float | None = None) -> pb.SubmitReplyResponse:
        """Answers a prompt that was taken."""
        return cast(pb.SubmitReplyResponse, self._unary(self._stub.SubmitReply, request, timeout_s))

    def list_models(self, request: pb.ListModelsRequest, timeout_s: float | None = None) -> pb.ListModelsResponse:
        """Lists the models that can be named in a request, without paying for anything."""
        return cast(pb.ListModelsResponse, self._unary(self._stub.ListModels, request, timeout_s))
