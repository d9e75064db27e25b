"""The other services over gRPC; nothing here decides anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.controller.v1 import controller_pb2
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.generator.v1 import generator_pb2
from adaexplore.memory.v1 import memory_pb2
from adaexplore.runtime.errors import InvalidArgumentError, UnavailableError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2
from adaexplore_controller import convert
from adaexplore_controller.domain import (
    Candidate,
    Evaluation,
    GenerationEstimate,
    Kernel,
    Proof,
    SearchSpec,
    Skill,
    TaskFacts,
    Usage,
    Violation,
)
from adaexplore_controller.ports import Compilation, GenerationRequest, Lesson, Listener, ShownKernel
from adaexplore_controller.tree import Move


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Deadlines by kind of call, in seconds."""

    describe_s: float = 900.0
    generate_s: float = 1800.0
    evaluate_s: float = 3600.0
    compile_s: float = 600.0
    memory_s: float = 30.0


class GrpcGenerator:
    """The generator behind its API.

    Args:
        client: Connected client.
        limits: Deadlines.

    """

    def __init__(self, client: AsyncGeneratorClient, limits: CallLimits) -> None:
        self._client, self._limits = client, limits

    async def generate(self, request: GenerationRequest, listener: Listener) -> Candidate:
        """Return one candidate; the listener hears the stages."""
        found: Candidate | None = None
        async for response in self._client.generate_kernel(_generate_request(request), self._limits.generate_s):
            if response.HasField("candidate"):
                found = _candidate_from(response.candidate)
            else:
                await listener(response.progress.stage)
        if found is None:
            raise UnavailableError("the stream ended without a candidate")
        return found

    async def estimate(self, request: GenerationRequest) -> GenerationEstimate:
        """Return what a generation can use; no model is asked."""
        message = generator_pb2.EstimateUsageRequest(generation=_generate_request(request))
        response = await self._client.estimate_usage(message, self._limits.memory_s)
        payload = response.SerializeToString(deterministic=True)
        return GenerationEstimate(payload, convert.usage_from(response.worst_case), convert.usage_from(response.expected))

    async def used(self, request_id: str) -> Usage:
        """Return what a request has used so far, calls whose usage never arrived at their worst case."""
        response = await self._client.get_usage(generator_pb2.GetUsageRequest(request_id=request_id), self._limits.memory_s)
        return convert.usage_from(response.usage)


class GrpcEvaluator:
    """The evaluator behind its API.

    Args:
        client: Connected client.
        limits: Deadlines.

    """

    def __init__(self, client: AsyncEvaluatorClient, limits: CallLimits) -> None:
        self._client, self._limits = client, limits

    async def describe(self, spec: SearchSpec) -> TaskFacts:
        """Return what there is to know about the task of a search."""
        wire = _spec(spec)
        request = evaluator_pb2.DescribeTaskRequest(task=wire.task, device=_device(wire))
        response = await self._client.describe_task(request, self._limits.describe_s)
        audit = response.description.audit
        return TaskFacts(
            payload=response.SerializeToString(deterministic=True),
            valid=audit.valid,
            task_digest=response.description.digest,
            message="" if audit.valid else audit.message or audit.cause,
            triton_version=response.platform.triton_version,
            target=response.platform.target or wire.device.target,
        )

    async def evaluate(self, request_id: str, spec: SearchSpec, kernel: Kernel, listener: Listener) -> Evaluation:
        """Return the judgement of one candidate; the listener hears the phases."""
        wire = _spec(spec)
        request = evaluator_pb2.EvaluateKernelRequest(request_id=request_id, task=wire.task, kernel=_kernel(kernel), device=_device(wire))
        found: Evaluation | None = None
        async for response in self._client.evaluate_kernel(request, self._limits.evaluate_s):
            if response.HasField("evaluation"):
                found = convert.evaluation_from(response.evaluation)
            else:
                phase = convert.phase_from(response.progress.phase).lower()
                await listener(f"{phase}: {response.progress.message}" if response.progress.message else phase)
        if found is None:
            raise UnavailableError("the stream ended without an evaluation")
        return found

    async def compile_reproducer(self, skill: Skill, target: str) -> Compilation:
        """Compile the smallest kernel that shows a rule's failure."""
        return await self._compile(_skill(skill).evidence.reproducer, target)

    async def compile_repair(self, skill: Skill, index: int, target: str) -> Compilation:
        """Compile one of the rule's repairs."""
        return await self._compile(_skill(skill).evidence.repairs[index], target)

    async def _compile(self, snippet: skill_pb2.KernelSnippet, target: str) -> Compilation:
        request = evaluator_pb2.CompileKernelRequest(snippet=snippet, target=target)
        response = await self._client.compile_kernel(request, self._limits.compile_s)
        cause = "" if response.compiled else convert.cause_from(response.cause)
        platform = response.platform
        return Compilation(
            response.compiled, cause, platform.triton_version, platform.target or target, convert.diagnosis_from(response.failure)
        )


class GrpcMemory:
    """The memory behind its API.

    Args:
        client: Connected client.
        limits: Deadlines.

    """

    def __init__(self, client: AsyncMemoryClient, limits: CallLimits) -> None:
        self._client, self._limits = client, limits

    async def select(self, spec: SearchSpec, facts: TaskFacts, move: Move) -> tuple[Skill, ...]:
        """Return the skills to show a generation, the most relevant first."""
        request = memory_pb2.SelectSkillsRequest(
            description=_facts(facts).description,
            device=_target_device(spec, facts),
            triton_version=facts.triton_version,
            move=convert.move_to(move),
        )
        response = await self._client.select_skills(request, self._limits.memory_s)
        return tuple(convert.skill_from(selected.skill) for selected in response.skills)

    async def check(self, spec: SearchSpec, facts: TaskFacts, kernel: Kernel) -> tuple[Violation, ...]:
        """Return the places where a source breaks an active rule."""
        request = memory_pb2.CheckSourceRequest(
            kernel=_kernel(kernel), device=_target_device(spec, facts), triton_version=facts.triton_version
        )
        response = await self._client.check_source(request, self._limits.memory_s)
        return tuple(Violation(found.skill.name, found.skill.rule, found.line) for found in response.violations)

    async def record_failure(self, request_id: str, facts: TaskFacts, kernel: Kernel, evaluation: Evaluation) -> Lesson:
        """Record a failed evaluation; one that the memory does not take for a lesson teaches nothing."""
        request = memory_pb2.RecordFailureRequest(
            request_id=request_id,
            task_digest=facts.task_digest,
            kernel=_kernel(kernel),
            evaluation=evaluation_pb2.Evaluation.FromString(evaluation.payload),
        )
        try:
            response = await self._client.record_failure(request, self._limits.memory_s)
        except InvalidArgumentError as error:
            if error.reason == "NOT_A_LESSON":
                return Lesson(None)
            raise
        skill = convert.skill_from(response.skill) if response.HasField("skill") else None
        return Lesson(skill, response.created, response.proof_wanted)

    async def record_outcome(
        self, request_id: str, shown: tuple[str, ...], respected: tuple[str, ...], evaluation: Evaluation | None
    ) -> None:
        """Record what came of a generation that was shown skills."""
        request = memory_pb2.RecordOutcomeRequest(request_id=request_id, shown_skills=shown, respected_skills=respected)
        if evaluation:
            request.evaluation.ParseFromString(evaluation.payload)
        await self._client.record_outcome(request, self._limits.memory_s)

    async def get(self, name: str) -> Skill:
        """Return one skill as it is now."""
        response = await self._client.get_skill(memory_pb2.GetSkillRequest(name=name), self._limits.memory_s)
        return convert.skill_from(response.skill)

    async def store_proof(self, skill: Skill, proof: Proof) -> Skill:
        """Attach a proof, which moves the skill's state; AbortedError if the skill changed since it was read."""
        request = memory_pb2.UpdateSkillRequest(skill=skill_pb2.Skill(name=skill.name, etag=_skill(skill).etag))
        request.skill.evidence.proof.CopyFrom(_proof(proof))
        request.update_mask.paths.append("evidence.proof")
        response = await self._client.update_skill(request, self._limits.memory_s)
        return convert.skill_from(response.skill)


class Connections:
    """The three services behind their clients; an asynchronous context manager that closes these.

    Args:
        generator: Connected client.
        evaluator: Connected client.
        memory: Connected client.
        limits: Deadlines.

    """

    def __init__(
        self, *, generator: AsyncGeneratorClient, evaluator: AsyncEvaluatorClient, memory: AsyncMemoryClient, limits: CallLimits
    ) -> None:
        self._clients = (generator, evaluator, memory)
        self.generator = GrpcGenerator(generator, limits)
        self.evaluator = GrpcEvaluator(evaluator, limits)
        self.memory = GrpcMemory(memory, limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()


def _generate_request(request: GenerationRequest) -> generator_pb2.GenerateKernelRequest:
    wire, facts = _spec(request.spec), _facts(request.facts)
    message = generator_pb2.GenerateKernelRequest(
        request_id=request.request_id,
        task=wire.task,
        description=facts.description,
        baselines=facts.baselines,
        device=_target_device(request.spec, request.facts),
        move=convert.move_to(request.move),
        context=_shown(request.context),
        pool=_shown(request.pool),
        skills=[_skill(skill) for skill in request.skills],
        known_digests=request.known_digests,
        model=wire.model if request.member is None else wire.ensemble.members[request.member].model,
        seed=request.seed,
        max_cost_micro_usd=request.max_cost_micro_usd,
    )
    for violation in request.violations:
        message.violations.add(skill=violation.skill, rule=violation.rule, line=violation.line)
    return message


def _candidate_from(message: generator_pb2.Candidate) -> Candidate:
    return Candidate(
        outcome=convert.outcome_from(message.outcome),
        kernel=Kernel(message.kernel.source, message.kernel.digest) if message.kernel.source else None,
        recipe=message.recipe,
        summary=message.summary,
        respected_skills=tuple(message.respected_skills),
        usage=convert.usage_from(message.usage),
        provider=message.provider,
        model=message.model,
        prompt_digest=message.prompt_digest,
        message=message.message,
    )


def _shown(kernels: Iterable[ShownKernel]) -> list[generator_pb2.ContextKernel]:
    messages: list[generator_pb2.ContextKernel] = []
    for shown in kernels:
        message = generator_pb2.ContextKernel(kernel=_kernel(shown.kernel), recipe=shown.recipe)
        if shown.evaluation:
            message.evaluation.ParseFromString(shown.evaluation.payload)
            message.evaluation.verdict = evaluation_pb2.Verdict.Value(f"VERDICT_{shown.evaluation.verdict}")
        messages.append(message)
    return messages


def _proof(proof: Proof) -> skill_pb2.SkillProof:
    message = skill_pb2.SkillProof(
        reproducer_failed=proof.reproducer_failed,
        repair_index=proof.repair_index,
        triton_version=proof.triton_version,
        target=proof.target,
    )
    message.prove_time.FromDatetime(proof.prove_time)
    return message


def _spec(spec: SearchSpec) -> controller_pb2.SearchSpec:
    return controller_pb2.SearchSpec.FromString(spec.payload)


def _facts(facts: TaskFacts) -> evaluator_pb2.DescribeTaskResponse:
    return evaluator_pb2.DescribeTaskResponse.FromString(facts.payload)


def _skill(skill: Skill) -> skill_pb2.Skill:
    return skill_pb2.Skill.FromString(skill.payload)


def _kernel(kernel: Kernel) -> kernel_pb2.Kernel:
    return kernel_pb2.Kernel(source=kernel.source, digest=kernel.digest)


def _device(wire: controller_pb2.SearchSpec) -> kernel_pb2.DeviceSpec | None:
    return wire.device if wire.HasField("device") else None


def _target_device(spec: SearchSpec, facts: TaskFacts) -> kernel_pb2.DeviceSpec:
    """Return the device with what the evaluator chose where the search leaves it open."""
    device = kernel_pb2.DeviceSpec()
    device.CopyFrom(_spec(spec).device)
    device.kind = device.kind or _facts(facts).platform.device
    device.target = device.target or facts.target
    return device
