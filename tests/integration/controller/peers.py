"""Generator, evaluator and memory as small gRPC servers that answer by rule and count what they are asked."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field

import grpc

from adaexplore.evaluator.v1 import evaluator_pb2 as ev
from adaexplore.evaluator.v1 import evaluator_pb2_grpc as ev_rpc
from adaexplore.generator.v1 import generator_pb2 as gen
from adaexplore.generator.v1 import generator_pb2_grpc as gen_rpc
from adaexplore.memory.v1 import memory_pb2 as mem
from adaexplore.memory.v1 import memory_pb2_grpc as mem_rpc
from adaexplore.runtime.errors import ServiceError
from adaexplore.runtime.interceptors import RpcInterceptor
from adaexplore.types.v1 import evaluation_pb2 as ep
from adaexplore.types.v1 import kernel_pb2, skill_pb2

FORBIDDEN = "tl.forbidden"
RULE = "You cannot use tl.forbidden."


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _failure():
    said = "module 'triton.language' has no attribute 'forbidden'"
    signature = f"COMPILE|COMPILE|AttributeError|{said}"
    return ep.Failure(message="tl has no attribute forbidden", exception_type="AttributeError", detail=said, signature=signature)


@dataclass
class Generator(gen_rpc.GeneratorServiceServicer):
    """Writes a source that depends on nothing but move, seed, context and rules."""

    replies: dict[str, gen.Candidate] = field(default_factory=dict)
    requests: list[gen.GenerateKernelRequest] = field(default_factory=list)
    error: ServiceError | None = None

    async def GenerateKernel(self, request, context):
        self.requests.append(request)
        if self.error:
            raise self.error
        yield gen.GenerateKernelResponse(progress=gen.GenerateProgress(stage="proposing"))
        if request.request_id not in self.replies:
            self.replies[request.request_id] = self._write(request)
        yield gen.GenerateKernelResponse(candidate=self.replies[request.request_id])

    async def EstimateUsage(self, request, context):
        move = request.generation.move
        cost = None if request.generation.model.model == "unpriced" else 20 if move == kernel_pb2.MOVE_LOCAL else 10
        most = gen.Usage(input_tokens=100, output_tokens=50, calls=2, cost_micro_usd=cost)
        usual = gen.Usage(input_tokens=10, output_tokens=5, calls=1, cost_micro_usd=None if cost is None else 3)
        price = None if cost is None else gen.ModelPrice(input_micro_usd_per_million=1, date="2026-01-01", source="test")
        return gen.EstimateUsageResponse(provider="fake", model="m", worst_case=most, expected=usual, price=price)

    async def GetUsage(self, request, context):
        known = self.replies.get(request.request_id)
        return gen.GetUsageResponse(usage=known.usage if known else gen.Usage(cost_micro_usd=0))

    def _write(self, request):
        shown = [k.kernel.source for k in (*request.context, *request.pool)]
        code = digest(f"{request.move}/{request.seed}/{shown}/{len(request.violations)}")
        knows = any(skill.rule == RULE for skill in request.skills)
        forbidden = int(code[:8], 16) % 3 == 0 and not knows
        source = f"# {FORBIDDEN} {code}" if forbidden else f"# {code}"
        usage = gen.Usage(input_tokens=10, output_tokens=5, calls=1, cost_micro_usd=3)
        respected = ["skills/1"] if knows and int(code[:8], 16) % 3 == 0 else []
        kernel = kernel_pb2.Kernel(source=source, digest=digest(source))
        return gen.Candidate(
            outcome=gen.GENERATE_OUTCOME_KERNEL,
            kernel=kernel,
            recipe=code,
            summary="why",
            respected_skills=respected,
            usage=usage,
            provider="fake",
        )


@dataclass
class Evaluator(ev_rpc.EvaluatorServiceServicer):
    """Judges a source by its digest."""

    valid: bool = True
    delay_s: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def DescribeTask(self, request, context):
        response = ev.DescribeTaskResponse(platform=self._platform())
        response.description.digest = digest(request.task.source)
        response.description.audit.valid = self.valid
        if not self.valid:
            response.description.audit.message = "task.py:1: the reference raises; fix it"
        response.baselines.add(kind=ep.BASELINE_KIND_EAGER, median_us=100.0)
        return response

    async def EvaluateKernel(self, request, context):
        self.calls["/".join(request.request_id.split("/")[2:])] += 1
        yield ev.EvaluateKernelResponse(progress=ev.EvaluationProgress(phase=ep.PHASE_COMPILE))
        self.entered.set()
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield ev.EvaluateKernelResponse(evaluation=self._judge(request.kernel.source))

    def _judge(self, source):
        evaluation = ep.Evaluation(
            kernel_digest=digest(source), verdict=ep.VERDICT_PASSED, phase=ep.PHASE_TIMING, platform=self._platform()
        )
        luck = int(digest(source)[:8], 16)
        if FORBIDDEN in source:
            evaluation.verdict, evaluation.cause, evaluation.phase = ep.VERDICT_FAILED, ep.CAUSE_COMPILE, ep.PHASE_COMPILE
            evaluation.failure.CopyFrom(_failure())
        else:
            evaluation.timing.status = ep.TIMING_STATUS_ESTIMATED
            evaluation.timing.speedup = 0.5 + luck % 300 / 100
            evaluation.timing.median_us = 100 / evaluation.timing.speedup
        return evaluation

    async def CompileKernel(self, request, context):
        if request.snippet.function_name == "good":
            return ev.CompileKernelResponse(compiled=True, platform=self._platform())
        return ev.CompileKernelResponse(compiled=False, cause=ep.CAUSE_COMPILE, platform=self._platform(), failure=_failure())

    def _platform(self):
        return ep.Platform(device=kernel_pb2.DEVICE_KIND_CPU, target="sm_90", triton_version="3.7.1")


@dataclass
class Memory(mem_rpc.MemoryServiceServicer):
    """Learns one rule, active once proven."""

    skill: skill_pb2.Skill | None = None
    failures: dict[str, mem.RecordFailureResponse] = field(default_factory=dict)
    outcomes: set[str] = field(default_factory=set)
    updates: list[mem.UpdateSkillRequest] = field(default_factory=list)

    async def SelectSkills(self, request, context):
        active = self.skill is not None and self.skill.state == skill_pb2.SKILL_STATE_ACTIVE
        return mem.SelectSkillsResponse(skills=[mem.SelectedSkill(skill=self.skill, reason="active")] if active else [])

    async def CheckSource(self, request, context):
        return mem.CheckSourceResponse()

    async def RecordFailure(self, request, context):
        if request.request_id not in self.failures:
            created = self.skill is None
            if created:
                self.skill = skill_pb2.Skill(name="skills/1", rule=RULE, state=skill_pb2.SKILL_STATE_CANDIDATE, etag="1")
                self.skill.evidence.reproducer.function_name = "bad"
                self.skill.evidence.repairs.add(function_name="bad")
                self.skill.evidence.repairs.add(function_name="good")
            wanted = self.skill.state == skill_pb2.SKILL_STATE_CANDIDATE
            self.failures[request.request_id] = mem.RecordFailureResponse(skill=self.skill, created=created, proof_wanted=wanted)
        return self.failures[request.request_id]

    async def RecordOutcome(self, request, context):
        self.outcomes.add(request.request_id)
        return mem.RecordOutcomeResponse()

    async def GetSkill(self, request, context):
        return mem.GetSkillResponse(skill=self.skill)

    async def UpdateSkill(self, request, context):
        self.updates.append(request)
        request.update_mask.MergeMessage(request.skill, self.skill)
        if self.skill.evidence.proof.HasField("repair_index"):
            self.skill.state = skill_pb2.SKILL_STATE_ACTIVE
        return mem.UpdateSkillResponse(skill=self.skill)


@dataclass
class PeerServer:
    """The three services on one free port; it can be stopped and started again on the same port."""

    generator: Generator = field(default_factory=Generator)
    evaluator: Evaluator = field(default_factory=Evaluator)
    memory: Memory = field(default_factory=Memory)
    address: str = "127.0.0.1:0"
    server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self.server = grpc.aio.server(interceptors=[RpcInterceptor("peers.adaexplore", 60)], options=[("grpc.so_reuseport", 0)])
        gen_rpc.add_GeneratorServiceServicer_to_server(self.generator, self.server)
        ev_rpc.add_EvaluatorServiceServicer_to_server(self.evaluator, self.server)
        mem_rpc.add_MemoryServiceServicer_to_server(self.memory, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port(self.address)}"
        await self.server.start()

    async def stop(self) -> None:
        assert self.server
        await self.server.stop(None)
