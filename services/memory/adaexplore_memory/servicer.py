"""The gRPC face of the memory: protos in, protos out."""

from __future__ import annotations

from typing import Any

import grpc

from adaexplore.memory.v1 import memory_pb2 as pb
from adaexplore.memory.v1 import memory_pb2_grpc as rpc
from adaexplore_memory import convert
from adaexplore_memory.memory import Memory

_Context = grpc.aio.ServicerContext[Any, Any]


class MemoryServicer(rpc.MemoryServiceServicer):
    """Serves the memory API over a Memory; the proto's comments say what each call does and which errors it has."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def CreateSkill(self, request: pb.CreateSkillRequest, context: _Context) -> pb.CreateSkillResponse:
        """Add a skill written by hand or by a model."""
        request_id = convert.request_id_of(request.request_id, required=False)
        return pb.CreateSkillResponse(skill=convert.skill_to(await self._memory.create(convert.skill_from(request.skill), request_id)))

    async def GetSkill(self, request: pb.GetSkillRequest, context: _Context) -> pb.GetSkillResponse:
        """Return one skill."""
        return pb.GetSkillResponse(skill=convert.skill_to(await self._memory.get(request.name)))

    async def ListSkills(self, request: pb.ListSkillsRequest, context: _Context) -> pb.ListSkillsResponse:
        """List skills, the newest first."""
        page = await self._memory.list(convert.filter_from(request), request.page_size, request.page_token)
        return pb.ListSkillsResponse(skills=map(convert.skill_to, page.skills), next_page_token=page.next_token)

    async def UpdateSkill(self, request: pb.UpdateSkillRequest, context: _Context) -> pb.UpdateSkillResponse:
        """Change the fields that the mask names."""
        return pb.UpdateSkillResponse(skill=convert.skill_to(await self._memory.update(*convert.update_from(request))))

    async def DeleteSkill(self, request: pb.DeleteSkillRequest, context: _Context) -> pb.DeleteSkillResponse:
        """Delete a skill and its evidence."""
        await self._memory.delete(request.name, request.etag)
        return pb.DeleteSkillResponse()

    async def SelectSkills(self, request: pb.SelectSkillsRequest, context: _Context) -> pb.SelectSkillsResponse:
        """Select the skills that a generation should be shown."""
        return pb.SelectSkillsResponse(skills=map(convert.selected_to, await self._memory.select(convert.query_from(request))))

    async def RecordFailure(self, request: pb.RecordFailureRequest, context: _Context) -> pb.RecordFailureResponse:
        """Record a failed evaluation and distil what it teaches."""
        return convert.recorded_to(await self._memory.record_failure(convert.failure_from(request)))

    async def RecordOutcome(self, request: pb.RecordOutcomeRequest, context: _Context) -> pb.RecordOutcomeResponse:
        """Record what came of a generation that was shown skills."""
        await self._memory.record_outcome(convert.outcome_from(request))
        return pb.RecordOutcomeResponse()

    async def CheckSource(self, request: pb.CheckSourceRequest, context: _Context) -> pb.CheckSourceResponse:
        """Check a source against the patterns of ACTIVE rules."""
        environment = convert.environment_from(request.device, request.triton_version)
        violations = await self._memory.check(request.kernel.source, environment)
        return pb.CheckSourceResponse(violations=map(convert.violation_to, violations))

    async def ImportSkills(self, request: pb.ImportSkillsRequest, context: _Context) -> pb.ImportSkillsResponse:
        """Add skills that another memory or another tool exported."""
        imported = await self._memory.import_skills([convert.skill_from(skill, partial=True) for skill in request.skills])
        return pb.ImportSkillsResponse(results=map(convert.imported_to, imported))

    async def GetMemoryStats(self, request: pb.GetMemoryStatsRequest, context: _Context) -> pb.GetMemoryStatsResponse:
        """Count what the memory holds."""
        return convert.stats_to(await self._memory.stats())
