"""How many programs of a kernel live on a multiprocessor at once, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_evaluator.devices.cpu.datasheet import Multiprocessor
from adaexplore_evaluator.devices.cpu.launches import Resources


class DoesNotFitError(ValueError):
    """A program asks for more than a multiprocessor has; `resource`, `asked` and `available` say of what and how much."""

    def __init__(self, resource: str, asked: int, available: int) -> None:
        super().__init__(f"a program asks for {asked} {resource}, the target has {available}")
        self.resource = resource
        self.asked = asked
        self.available = available


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident programs and warps of one multiprocessor; `share` is warps ÷ the most it can hold, `limit` what stops more."""

    programs: int
    warps: int
    share: float
    limit: str


def occupancy(resources: Resources, limits: Multiprocessor) -> Occupancy:
    """Occupancy from registers, shared memory and warps; raises DoesNotFitError if not even one program fits."""
    by_resource = {
        "warps": limits.warps // resources.warps,
        "programs": limits.programs,
        "registers": _by_registers(resources, limits),
        "shared memory": _by_shared_memory(resources, limits),
    }
    limit = min(by_resource, key=lambda name: by_resource[name])
    programs = by_resource[limit]
    if programs == 0:
        raise _does_not_fit(limit, resources, limits)
    warps = programs * resources.warps
    return Occupancy(programs=programs, warps=warps, share=warps / limits.warps, limit=limit)


def _by_registers(resources: Resources, limits: Multiprocessor) -> int:
    registers = max(resources.registers, 1)
    if registers > limits.registers_per_thread:
        return 0
    per_warp = _round_up(registers * limits.lanes_per_warp, limits.register_unit)
    warps = limits.registers // limits.partitions // per_warp * limits.partitions
    return warps // resources.warps


def _by_shared_memory(resources: Resources, limits: Multiprocessor) -> int:
    if resources.shared_bytes > limits.shared_bytes_per_program:
        return 0
    asked = _round_up(resources.shared_bytes + limits.shared_bytes_reserved, limits.shared_unit)
    return limits.shared_bytes // asked if asked else limits.programs


def _does_not_fit(limit: str, resources: Resources, limits: Multiprocessor) -> DoesNotFitError:
    if limit == "shared memory":
        return DoesNotFitError("bytes of shared memory", resources.shared_bytes, limits.shared_bytes_per_program)
    if limit == "registers":
        threads = resources.warps * limits.lanes_per_warp
        return DoesNotFitError("registers", resources.registers * threads, limits.registers)
    return DoesNotFitError("warps", resources.warps, limits.warps)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
