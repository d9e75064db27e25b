"""The search that a request asks for, checked field by field."""

from __future__ import annotations

import math

from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError
from adaexplore_controller import domain, models

_DEFAULT_STEPS, _MOST_STEPS, _MOST_IN_FLIGHT = 50, 100_000, 64
_MOST_SOURCE_BYTES, _MOST_TASK_NAME, _MOST_MODELS = 1024 * 1024, 200, 16


def spec_from(message: pb.SearchSpec) -> domain.SearchSpec:
    """Return the search that a request asks for.

    Raises:
        InvalidArgumentError: Names every field that is wrong.

    """
    violations = [
        *_task_problems(message),
        *_flight_problems(message),
        *_budget_problems(message.budget),
        *_policy_problems(message.policy),
        *(_ensemble_problems(message.ensemble) if message.HasField("ensemble") else ()),
    ]
    if violations:
        raise InvalidArgumentError(
            "; ".join(f"{v.field}: {v.description}" for v in violations), reason="REQUEST_INVALID", violations=violations
        )
    filled = pb.SearchSpec()
    filled.CopyFrom(message)
    filled.budget.max_steps = message.budget.max_steps or _DEFAULT_STEPS
    filled.max_in_flight = message.max_in_flight or 1
    wall_s = message.budget.max_wall_time.ToNanoseconds() / 1e9 if message.budget.HasField("max_wall_time") else None
    return domain.SearchSpec(
        payload=filled.SerializeToString(deterministic=True),
        seed=message.seed,
        max_steps=filled.budget.max_steps,
        max_wall_time_s=wall_s,
        policy=_policy_from(message.policy),
        seed_kernels=tuple(domain.Kernel(kernel.source, kernel.digest) for kernel in message.seed_kernels),
        memory_off=message.memory_off,
        max_cost_micro_usd=message.budget.max_cost_micro_usd if message.budget.HasField("max_cost_micro_usd") else None,
        task_source=message.task.source,
        ensemble=_ensemble_from(message.ensemble) if message.HasField("ensemble") else None,
        max_in_flight=filled.max_in_flight,
    )


def _policy_from(message: pb.PolicySpec) -> domain.PolicySpec:
    return domain.PolicySpec(
        message.name,
        message.exploration if message.HasField("exploration") else None,
        message.expansion if message.HasField("expansion") else None,
        message.structural_probability if message.HasField("structural_probability") else None,
    )


def _ensemble_from(message: pb.Ensemble) -> models.Ensemble:
    by_weight = message.policy == pb.ENSEMBLE_POLICY_WEIGHTS
    policy = models.EnsemblePolicy.WEIGHTS if by_weight else models.EnsemblePolicy.BANDIT
    return models.Ensemble(tuple(member.weight or 1.0 for member in message.members), policy)


def _ensemble_problems(message: pb.Ensemble) -> list[FieldViolation]:
    problems: list[FieldViolation] = []
    if not 1 <= len(message.members) <= _MOST_MODELS:
        problems.append(FieldViolation("spec.ensemble.members", f"must be 1 to {_MOST_MODELS} models"))
    for index, member in enumerate(message.members):
        if not (math.isfinite(member.weight) and member.weight >= 0):
            problems.append(FieldViolation(f"spec.ensemble.members[{index}].weight", "must be a finite number of at least 0; 0 means 1"))
    if message.policy not in pb.EnsemblePolicy.values():
        problems.append(FieldViolation("spec.ensemble.policy", "is none that is known here"))
    return problems


def _task_problems(message: pb.SearchSpec) -> list[FieldViolation]:
    problems: list[FieldViolation] = []
    if not message.task.source.strip():
        problems.append(FieldViolation("spec.task.source", "is empty; send the source of the task file"))
    if len(message.task.name) > _MOST_TASK_NAME:
        problems.append(FieldViolation("spec.task.name", f"has more than {_MOST_TASK_NAME} characters"))
    sources = [("spec.task.source", message.task.source)]
    for index, kernel in enumerate(message.seed_kernels):
        sources.append((f"spec.seed_kernels[{index}].source", kernel.source))
        if not kernel.source.strip():
            problems.append(FieldViolation(f"spec.seed_kernels[{index}].source", "is empty"))
    return problems + [FieldViolation(f, "is larger than 1 MiB") for f, text in sources if len(text.encode()) > _MOST_SOURCE_BYTES]


def _budget_problems(message: pb.Budget) -> list[FieldViolation]:
    problems: list[FieldViolation] = []
    if not 0 <= message.max_steps <= _MOST_STEPS:
        problems.append(FieldViolation("spec.budget.max_steps", f"must lie between 1 and {_MOST_STEPS:,}; 0 means {_DEFAULT_STEPS}"))
    if message.HasField("max_wall_time") and message.max_wall_time.ToNanoseconds() <= 0:
        problems.append(FieldViolation("spec.budget.max_wall_time", "must be longer than 0; leave it out for no limit"))
    if message.max_cost_micro_usd < 0:
        problems.append(FieldViolation("spec.budget.max_cost_micro_usd", "must not be negative; leave it out for no limit"))
    return problems


def _flight_problems(message: pb.SearchSpec) -> list[FieldViolation]:
    if 0 <= message.max_in_flight <= _MOST_IN_FLIGHT:
        return []
    return [FieldViolation("spec.max_in_flight", f"must lie between 1 and {_MOST_IN_FLIGHT}; 0 means 1")]


def _policy_problems(message: pb.PolicySpec) -> list[FieldViolation]:
    bounds = (("exploration", math.inf), ("expansion", math.inf), ("structural_probability", 1.0))
    problems: list[FieldViolation] = []
    for name, most in bounds:
        value = getattr(message, name)
        if not (math.isfinite(value) and 0 <= value <= most):
            text = "must be a finite number of at least 0" if most == math.inf else "must lie between 0 and 1"
            problems.append(FieldViolation(f"spec.policy.{name}", text))
    return problems
