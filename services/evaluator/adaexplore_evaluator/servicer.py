"""The gRPC face of the evaluator: messages in, messages out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.evaluator.v1 import evaluator_pb2_grpc
from adaexplore_evaluator import convert
from adaexplore_evaluator.admission import Admission, Stage
from adaexplore_evaluator.config import EvaluatorConfig
from adaexplore_evaluator.domain import EvaluateJob
from adaexplore_evaluator.sites import Sites

Context = grpc.aio.ServicerContext[Any, Any]


class EvaluatorServicer(evaluator_pb2_grpc.EvaluatorServiceServicer):
    """Serves `adaexplore.evaluator.v1.EvaluatorService`.

    Args:
        admission: What does the work.
        sites: Whose platforms and health ListDevices tells.
        config: Default and longest limits.

    """

    def __init__(self, admission: Admission, sites: Sites, config: EvaluatorConfig) -> None:
        self._admission = admission
        self._sites = sites
        self._gpus = tuple(site.gpu for site in sites.gpus)
        self._config = config

    async def DescribeTask(self, request: pb.DescribeTaskRequest, context: Context) -> pb.DescribeTaskResponse:
        """Load, trace and audit a task."""
        return convert.described(await self._admission.describe(convert.describe_job(request, self._gpus)))

    async def EvaluateKernel(self, request: pb.EvaluateKernelRequest, context: Context) -> AsyncIterator[pb.EvaluateKernelResponse]:
        """Stream stages, then the one Evaluation; the work ends as soon as its last caller is gone."""
        async for event in self._events(convert.evaluate_job(request, self._config.budgets, self._config.longest_phase_s, self._gpus)):
            yield event

    async def ProfileKernel(self, request: pb.ProfileKernelRequest, context: Context) -> AsyncIterator[pb.ProfileKernelResponse]:
        """Stream stages, then the one Evaluation with its profile; the work ends as soon as its last caller is gone."""
        async for event in self._events(convert.profile_job(request, self._config.budgets, self._config.longest_phase_s, self._gpus)):
            yield convert.profile_event(event)

    async def _events(self, job: EvaluateJob) -> AsyncIterator[pb.EvaluateKernelResponse]:
        async for event in self._admission.evaluate(job):
            yield convert.stage(event.phase, event.message) if isinstance(event, Stage) else convert.evaluation(event)

    async def CompileKernel(self, request: pb.CompileKernelRequest, context: Context) -> pb.CompileKernelResponse:
        """Compile one stand-alone kernel."""
        return convert.compiled(await self._admission.compile(convert.compile_job(request)))

    async def ListDevices(self, request: pb.ListDevicesRequest, context: Context) -> pb.ListDevicesResponse:
        """List the devices of this replica."""
        cpu = self._sites.cpu
        gpus = [(site.gpu, site.pool.platform, site.pool.problem) for site in self._sites.gpus]
        return convert.devices(request, cpu.platform, cpu.problem, self._config.runner_memory_bytes, gpus)

    async def GetArtifact(self, request: pb.GetArtifactRequest, context: Context) -> AsyncIterator[pb.GetArtifactResponse]:
        """Stream one artefact in chunks."""
        for chunk in self._admission.artifact(request.digest):
            yield pb.GetArtifactResponse(chunk=chunk)
