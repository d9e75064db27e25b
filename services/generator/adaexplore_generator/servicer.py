"""The gRPC face of the generator: messages in, messages out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.generator.v1 import generator_pb2_grpc
from adaexplore_generator import convert
from adaexplore_generator.domain import Progress
from adaexplore_generator.service import Generator

_TOLD_WITHIN_S = 0.1
Context = grpc.aio.ServicerContext[Any, Any]


class GeneratorServicer(generator_pb2_grpc.GeneratorServiceServicer):
    """Serves `adaexplore.generator.v1.GeneratorService`.

    Args:
        generator: What does the work.

    """

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def GenerateKernel(self, request: pb.GenerateKernelRequest, context: Context) -> AsyncIterator[pb.GenerateKernelResponse]:
        """Stream progress, then the one candidate; the work ends as soon as the caller is gone."""
        latest = _Latest()
        work = asyncio.create_task(self._generator.generate(convert.generate_request(request), latest.put))
        work.add_done_callback(lambda _: latest.wake())

        def stop(_call: object) -> None:
            work.cancel()

        context.add_done_callback(stop)  # type: ignore[arg-type]  # the stub wants its own class
        try:
            while not work.done():
                state = await latest.take()
                if state is not None and not work.done():
                    yield pb.GenerateKernelResponse(progress=convert.progress(state))
            yield pb.GenerateKernelResponse(candidate=convert.candidate(await work))
        finally:
            work.cancel()

    async def DistillSkill(self, request: pb.DistillSkillRequest, context: Context) -> pb.DistillSkillResponse:
        """Word a rule from one failure."""
        return convert.distilled(await self._generator.distill(convert.distill_request(request)))

    async def JudgeDuplicate(self, request: pb.JudgeDuplicateRequest, context: Context) -> pb.JudgeDuplicateResponse:
        """Say whether a rule repeats a known one."""
        return convert.judgement(await self._generator.judge(convert.judge_request(request)))

    async def SynthesizeTask(self, request: pb.SynthesizeTaskRequest, context: Context) -> pb.SynthesizeTaskResponse:
        """Write a new task."""
        return convert.synthesized(await self._generator.synthesize(convert.synthesize_request(request)))

    async def EstimateUsage(self, request: pb.EstimateUsageRequest, context: Context) -> pb.EstimateUsageResponse:
        """Say what a generation can use, without asking a model."""
        return convert.estimate(self._generator.estimate(convert.generate_request(request.generation)))

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        """Return what a request has used so far."""
        return pb.GetUsageResponse(usage=convert.usage(await self._generator.used(request.request_id)))

    async def ClaimRequest(self, request: pb.ClaimRequestRequest, context: Context) -> pb.ClaimRequestResponse:
        """Take a prompt to answer it, or prolong a lease."""
        return convert.claimed(await self._generator.claim(*convert.claim(request)))

    async def SubmitReply(self, request: pb.SubmitReplyRequest, context: Context) -> pb.SubmitReplyResponse:
        """Answer a prompt that was taken."""
        await self._generator.submit(request.lease_token, convert.external_reply(request))
        return pb.SubmitReplyResponse()

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        """List the models that can be named in a request."""
        return convert.model_page(await self._generator.list_models(request.provider, request.page_size, request.page_token))


class _Latest:
    """Holds the newest progress only, so that a slow reader never piles messages up.

    A new stage is told at once, and what was received meanwhile within a tenth of a second: models send pieces of a few characters, and to
    tell somebody of one takes as long as to read it.
    """

    def __init__(self) -> None:
        self._state: Progress | None = None
        self._stage = ""
        self._changed = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None

    def put(self, state: Progress) -> None:
        self._state = state
        if state.stage != self._stage:
            self._stage = state.stage
            self.wake()
        elif self._due is None:
            self._due = asyncio.get_running_loop().call_later(_TOLD_WITHIN_S, self.wake)

    def wake(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._changed.set()

    async def take(self) -> Progress | None:
        """Wait for news and return them; None if the work has ended without any."""
        await self._changed.wait()
        self._changed.clear()
        state, self._state = self._state, None
        return state
