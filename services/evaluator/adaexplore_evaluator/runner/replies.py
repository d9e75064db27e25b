"""One call of a reference on copies of its arguments, and the reply that says what it returned and what it wrote to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from adaexplore_evaluator.runner.arguments import call_with
from adaexplore_evaluator.runner.factors import FactorRecorder
from adaexplore_evaluator.runner.precision import cast_value
from adaexplore_evaluator.runner.tasks import TaskProgram, check_outputs
from adaexplore_evaluator.runner.wire import Tree, map_tensors, tensors_of

FLOAT64 = "float64"


class Encoder(Protocol):
    """Sends values to the other side."""

    def encode(self, value: object) -> Tree:
        """The tree of a value."""
        ...


@dataclass(frozen=True)
class ReferenceCall:
    """A reference that is to be called.

    Attributes:
        program: Its task.
        instance: The reference, constructed.
        compute: `float64` or `class`.
        dtype: The dtype that this is.

    """

    program: TaskProgram
    instance: Callable[..., Any]
    compute: str
    dtype: torch.dtype

    def reply(self, inputs: object, watch: object, buffers: Encoder) -> Tree:
        """Call it on copies of `inputs` and encode `outputs`.

        For a task of named cases the reply also says which inputs the call wrote to (`changed`, by number, or what `watch` asks for),
        what they hold `after` it, and of which decomposition the outputs are the `factors`.
        """
        copies = map_tensors(inputs, torch.clone)
        given = cast_value(copies, self.dtype) if self.compute == FLOAT64 else self.program.in_class(copies, self.dtype)
        if not self.program.file.test:
            outputs = call_with(self.instance, given)
            check_outputs(self.program.file, outputs)
            return {"outputs": buffers.encode(outputs)}
        before = map_tensors(given, torch.clone)
        with FactorRecorder() as recorder:
            outputs = call_with(self.instance, given)
        if isinstance(outputs, bool) or not isinstance(outputs, int | float):
            check_outputs(self.program.file, outputs)
        after = tensors_of(given)
        changed = watch if isinstance(watch, list) else _changed(tensors_of(before), after)
        return {
            "outputs": buffers.encode(outputs),
            "changed": changed,
            "after": buffers.encode([after[place] for place in changed]),
            "factors": recorder.kind_of(tensors_of(outputs)),
        }


def _changed(before: list[torch.Tensor], after: list[torch.Tensor]) -> list[int]:
    return [place for place, pair in enumerate(zip(before, after, strict=True)) if not _same(*pair)]


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(left.contiguous().reshape(-1).view(torch.uint8), right.contiguous().reshape(-1).view(torch.uint8))
