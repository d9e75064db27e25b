"""How large a task is, from its description."""

from __future__ import annotations

import math

from adaexplore_evaluator.referee.values import objects, plain_type
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import DTYPES

# The rounds of a candidate and their truth hold about twenty copies of a call's inputs and outputs. Of more than this there is no room left
# on a GPU, neither for a dozen cases of the usual size nor for baselines beside the candidate.
_LARGE_BYTES = 1 << 32
_LARGE_JUDGED_ELEMENTS = 1 << 24


def bytes_of(output: JsonObject) -> int:
    """Size of a tensor type of a description."""
    dtype, shape = plain_type(output)
    return math.prod(shape) * DTYPES[dtype].itemsize


def is_large(full: JsonObject) -> bool:
    """True if the inputs and outputs of one call at the full shape leave no room for much else."""
    tensors = [item.get("tensor") for item in objects(full, "inputs")]
    inputs = [tensor for tensor in tensors if isinstance(tensor, dict)]
    return sum(map(bytes_of, [*inputs, *objects(full, "outputs")])) > _LARGE_BYTES


def judged_elements_of(full: JsonObject, judged_elements: int) -> int:
    """Size of the shape at which numbers are judged: what is asked for, or less for a large task."""
    return min(judged_elements, _LARGE_JUDGED_ELEMENTS) if is_large(full) else judged_elements
