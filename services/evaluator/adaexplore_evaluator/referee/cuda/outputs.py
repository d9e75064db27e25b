"""Outputs of a round in the runner's memory: poisoned before it, read after it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from adaexplore_evaluator.referee.cuda.slots import TOGETHER, WINDOWS, drawn_below
from adaexplore_evaluator.referee.values import memory_of
from adaexplore_evaluator.runner.wire import Value, WireError, map_tensors, tensors_of

_LOOKED_AT = 64
# Integers of poison, drawn from a hundred, that no answer equals by chance.
_TELLING = 8
_UNIFORM = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Regions:
    """Where the outputs of a round's slots lie.

    Args:
        outputs: One value a slot, views of the runner's very memory.
        beside: Outputs of slots that are not in this round; they too tell what slots have in common.

    """

    def __init__(self, outputs: list[Value], beside: Sequence[Value] = ()) -> None:
        self._outputs = outputs
        uses = Counter(pointer for output in (*outputs, *beside) for pointer in {tensor.data_ptr() for tensor in tensors_of(output)})
        # What several slots return, a parameter say, is not written by the calls.
        shared = {pointer for pointer, count in uses.items() if count > 1}
        own = [[item for item in tensors_of(output) if item.data_ptr() not in shared and item.numel()] for output in outputs]
        self._targets = [memory_of(tensor) for tensors in own for tensor in tensors]
        self._samples = [sample for sample in map(_sample, own[-1]) if _is_telling(sample)]
        self._marks: list[tuple[torch.Tensor, torch.Tensor]] = []

    def poison(self) -> None:
        """Fill every output with random finite values, so that neither an earlier answer nor skipped work can pass for one."""
        together: dict[torch.dtype, list[torch.Tensor]] = {}
        for target in self._targets:
            if target.dtype in _UNIFORM and target.numel() <= TOGETHER:
                together.setdefault(target.dtype, []).append(target)
            else:
                _fill(target)
        for targets in together.values():
            _fill_all(targets)
        self._marks = [(sample, sample.clone()) for sample in self._samples]

    def last_is_fresh(self) -> bool:
        """Read some of the last output; False if all of it is still the poison."""
        if not self._marks:
            for tensor in tensors_of(self._outputs[-1]):
                _sample(tensor).cpu()
            return True
        return any(not torch.equal(sample.cpu(), mark.cpu()) for sample, mark in self._marks)

    def copied(self, at: int) -> Value:
        """A copy of a slot's output."""
        return map_tensors(self._outputs[at], lambda tensor: tensor.detach().clone())

    def lie_as(self, told: list[object], allocation_of: Callable[[int], int]) -> bool:
        """True if addresses that the runner told differ from those of the regions by one distance for each allocation.

        `allocation_of` gives the base of the allocation that holds an address of the regions.
        """
        distances: dict[int, int] = {}
        for output, pointers in zip(self._outputs, told, strict=True):
            tensors = tensors_of(output)
            if not isinstance(pointers, list) or len(pointers) != len(tensors):
                return False
            for tensor, pointer in zip(tensors, pointers, strict=True):
                if type(pointer) is not int:
                    return False
                if tensor.numel():
                    base = allocation_of(tensor.data_ptr())
                    if distances.setdefault(base, pointer - tensor.data_ptr()) != pointer - tensor.data_ptr():
                        return False
        return True


def listed(value: Value, count: int) -> list[Value]:
    """A list of so many values; WireError if it is none."""
    if not isinstance(value, list) or len(value) != count:
        raise WireError("a round has another number of outputs")
    return list(value)


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = memory_of(tensor)
    return flat[:: max(1, flat.numel() // _LOOKED_AT)]


def _is_telling(sample: torch.Tensor) -> bool:
    """Whether poison of this type and number is no answer by chance; what a bool is filled with depends on what it held."""
    return sample.is_floating_point() or (sample.dtype is not torch.bool and sample.numel() >= _TELLING)


def _fill_all(targets: list[torch.Tensor]) -> None:
    """As `_fill`, each from its own window of one table: thousands of small tensors take far longer one by one."""
    table = targets[0].new_empty(max(target.numel() for target in targets) + WINDOWS)
    _fill(table)
    begins = drawn_below(secrets.SystemRandom(), WINDOWS, len(targets))
    torch._foreach_copy_(targets, [table[begin : begin + target.numel()] for begin, target in zip(begins, targets, strict=True)])


def _fill(flat: torch.Tensor) -> None:
    if flat.dtype in _UNIFORM:
        flat.uniform_(-1.0, 1.0)
    elif flat.dtype is torch.bool:
        flat.logical_not_()
    elif flat.is_complex():
        torch.view_as_real(flat).uniform_(-1.0, 1.0)
    elif not flat.is_floating_point():
        flat.random_(0, 100)
    else:
        flat.view(torch.uint8).random_(0, 100)
