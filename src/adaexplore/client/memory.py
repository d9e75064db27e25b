"""Clients of the memory API; errors are `adaexplore.runtime.errors.ServiceError`s."""

from __future__ import annotations

from typing import cast

from adaexplore.client.base import AsyncClient, SyncClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.memory.v1 import memory_pb2 as pb
from adaexplore.memory.v1 import memory_pb2_grpc as rpc


class AsyncMemoryClient(AsyncClient):
    """Asynchronous client of the memory API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "memory"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.MemoryServiceStub(self._channel)

    async def create_skill(self, request: pb.CreateSkillRequest, timeout_s: float | None = None) -> pb.CreateSkillResponse:
        """Adds a skill written by hand or by a model."""
        return cast(pb.CreateSkillResponse, await self._unary(self._stub.CreateSkill, request, timeout_s))

    async def get_skill(self, request: pb.GetSkillRequest, timeout_s: float | None = None) -> pb.GetSkillResponse:
        """Returns one skill."""
        return cast(pb.GetSkillResponse, await self._unary(self._stub.GetSkill, request, timeout_s))

    async def list_skills(self, request: pb.ListSkillsRequest, timeout_s: float | None = None) -> pb.ListSkillsResponse:
        """Lists skills, the newest first."""
        return cast(pb.ListSkillsResponse, await self._unary(self._stub.ListSkills, request, timeout_s))

    async def update_skill(self, request: pb.UpdateSkillRequest, timeout_s: float | None = None) -> pb.UpdateSkillResponse:
        """Changes the fields that the mask names."""
        return cast(pb.UpdateSkillResponse, await self._unary(self._stub.UpdateSkill, request, timeout_s))

    async def delete_skill(self, request: pb.DeleteSkillRequest, timeout_s: float | None = None) -> pb.DeleteSkillResponse:
        """Deletes a skill and its evidence."""
        return cast(pb.DeleteSkillResponse, await self._unary(self._stub.DeleteSkill, request, timeout_s))

    async def select_skills(self, request: pb.SelectSkillsRequest, timeout_s: float | None = None) -> pb.SelectSkillsResponse:
        """Selects the skills that a generation should be shown, the most relevant first, with the reason for each."""
        return cast(pb.SelectSkillsResponse, await self._unary(self._stub.SelectSkills, request, timeout_s))

    async def record_failure(self, request: pb.RecordFailureRequest, timeout_s: float | None = None) -> pb.RecordFailureResponse:
        """Records a failed evaluation and distils what it teaches."""
        return cast(pb.RecordFailureResponse, await self._unary(self._stub.RecordFailure, request, timeout_s))

    async def record_outcome(self, request: pb.RecordOutcomeRequest, timeout_s: float | None = None) -> pb.RecordOutcomeResponse:
        """Records what came of a generation that was shown skills."""
        return cast(pb.RecordOutcomeResponse, await self._unary(self._stub.RecordOutcome, request, timeout_s))

    async def check_source(self, request: pb.CheckSourceRequest, timeout_s: float | None = None) -> pb.CheckSourceResponse:
        """Checks a source against the patterns of ACTIVE rules, without running it."""
        return cast(pb.CheckSourceResponse, await self._unary(self._stub.CheckSource, request, timeout_s))

    async def import_skills(self, request: pb.ImportSkillsRequest, timeout_s: float | None = None) -> pb.ImportSkillsResponse:
        """Adds skills that another memory or another tool exported, as CANDIDATEs."""
        return cast(pb.ImportSkillsResponse, await self._unary(self._stub.ImportSkills, request, timeout_s))

    async def get_memory_stats(self, request: pb.GetMemoryStatsRequest, timeout_s: float | None = None) -> pb.GetMemoryStatsResponse:
        """Counts what the memory holds."""
        return cast(pb.GetMemoryStatsResponse, await self._unary(self._stub.GetMemoryStats, request, timeout_s))


class MemoryClient(SyncClient):
    """Synchronous client of the memory API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "memory"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.MemoryServiceStub(self._channel)

    def create_skill(self, request: pb.CreateSkillRequest, timeout_s: float | None = None) -> pb.CreateSkillResponse:
        """Adds a skill written by hand or by a model."""
        return cast(pb.CreateSkillResponse, self._unary(self._stub.CreateSkill, request, timeout_s))

    def get_skill(self, request: pb.GetSkillRequest, timeout_s: float | None = None) -> pb.GetSkillResponse:
        """Returns one skill."""
        return cast(pb.GetSkillResponse, self._unary(self._stub.GetSkill, request, timeout_s))

    def list_skills(self, request: pb.ListSkillsRequest, timeout_s: float | None = None) -> pb.ListSkillsResponse:
        """Lists skills, the newest first."""
        return cast(pb.ListSkillsResponse, self._unary(self._stub.ListSkills, request, timeout_s))

    def update_skill(self, request: pb.UpdateSkillRequest, timeout_s: float | None = None) -> pb.UpdateSkillResponse:
        """Changes the fields that the mask names."""
        return cast(pb.UpdateSkillResponse, self._unary(self._stub.UpdateSkill, request, timeout_s))

    def delete_skill(self, request: pb.DeleteSkillRequest, timeout_s: float | None = None) -> pb.DeleteSkillResponse:
        """Deletes a skill and its evidence."""
        return cast(pb.DeleteSkillResponse, self._unary(self._stub.DeleteSkill, request, timeout_s))

    def select_skills(self, request: pb.SelectSkillsRequest, timeout_s: float | None = None) -> pb.SelectSkillsResponse:
        """Selects the skills that a generation should be shown, the most relevant first, with the reason for each."""
        return cast(pb.SelectSkillsResponse, self._unary(self._stub.SelectSkills, request, timeout_s))

    def record_failure(self, request: pb.RecordFailureRequest, timeout_s: float | None = None) -> pb.RecordFailureResponse:
        """Records a failed evaluation and distils what it teaches."""
        return cast(pb.RecordFailureResponse, self._unary(self._stub.RecordFailure, request, timeout_s))

    def record_outcome(self, request: pb.RecordOutcomeRequest, timeout_s: float | None = None) -> pb.RecordOutcomeResponse:
        """Records what came of a generation that was shown skills."""
        return cast(pb.RecordOutcomeResponse, self._unary(self._stub.RecordOutcome, request, timeout_s))

    def check_source(self, request: pb.CheckSourceRequest, timeout_s: float | None = None) -> pb.CheckSourceResponse:
        """Checks a source against the patterns of ACTIVE rules, without running it."""
        return cast(pb.CheckSourceResponse, self._unary(self._stub.CheckSource, request, timeout_s))

    def import_skills(self, request: pb.ImportSkillsRequest, timeout_s: float | None = None) -> pb.ImportSkillsResponse:
        """Adds skills that another memory or another tool exported, as CANDIDATEs."""
        return cast(pb.ImportSkillsResponse, self._unary(self._stub.ImportSkills, request, timeout_s))

    def get_memory_stats(self, request: pb.GetMemoryStatsRequest, timeout_s: float | None = None) -> pb.GetMemoryStatsResponse:
        """Counts what the memory holds."""
        return cast(pb.GetMemoryStatsResponse, self._unary(self._stub.GetMemoryStats, request, timeout_s))
