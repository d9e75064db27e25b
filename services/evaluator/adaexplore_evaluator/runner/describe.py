"""What a task is at one shape, found without running it on real memory where torch can do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode

from adaexplore_evaluator.runner.arguments import positional
from adaexplore_evaluator.runner.costs import tensor_bytes
from adaexplore_evaluator.runner.errors import RunnerError
from adaexplore_evaluator.runner.graph import Json, TraceError, tensor_type, trace
from adaexplore_evaluator.runner.judged import Measured
from adaexplore_evaluator.runner.precision import cast_instance
from adaexplore_evaluator.runner.seeding import torch_defaults
from adaexplore_evaluator.runner.state import state_of
from adaexplore_evaluator.runner.tasks import TaskProgram, check_outputs
from adaexplore_evaluator.runner.wire import tensors_of

MAX_REAL_BYTES = 4 * 2**30
_SEED = 0


@dataclass(frozen=True)
class Prepared:
    """A reference with the arguments of one call by position and their names, its tensors fake or real."""

    reference: Callable[..., object]
    init_inputs: list[object]
    inputs: list[object]
    names: list[str]


def prepare(program: TaskProgram, dtype: torch.dtype) -> Prepared:
    """Construct the reference and make its inputs in `dtype`, in the tensor mode that is active."""
    init_inputs = program.init_inputs()
    reference = program.construct(init_inputs, _SEED)
    cast_instance(reference, dtype)
    inputs = program.in_class(program.inputs(_SEED), dtype)
    call, values, names = positional(reference, inputs, program.signature())
    return Prepared(call, init_inputs, values, names)


def describe(program: TaskProgram, dtype: torch.dtype) -> Json:
    """The protocol's description of a program: arguments, outputs, state, graph, bytes and operations.

    What cannot be made without data is made with it; RunnerError(out_of_memory) if that would take more than 4 GiB.
    """
    with torch_defaults(), torch.no_grad():
        if not program.file.has_inputs:
            # Recorded arguments are real, and copies of fake ones would not be.
            return _describe(program, prepare(program, dtype))
        size_bytes = 0
        try:
            with _fake():
                prepared = prepare(program, dtype)
                size_bytes = sum(map(tensor_bytes, [*tensors_of(prepared.inputs), *state_of(prepared.reference).values()]))
                return _describe(program, prepared)
        except RunnerError:
            raise
        except Exception as error:  # what the task itself raises is raised again below
            if size_bytes > MAX_REAL_BYTES:
                message = f"{program.file.path.name} depends on values, and its {size_bytes / 2**30:.0f} GiB are too much to run it; "
                raise RunnerError("out_of_memory", message + "make its inputs smaller") from error
        return _describe(program, prepare(program, dtype))


def measure(program: TaskProgram, dtype: torch.dtype) -> Measured:
    """Shapes and operators of a program, without memory; raises what the program raises under fake tensors."""
    with torch_defaults(), torch.no_grad(), _fake():
        prepared = prepare(program, dtype)
        state = state_of(prepared.reference)
        recorder = _OperatorRecorder()
        with recorder:
            outputs = prepared.reference(*prepared.inputs)
    check_outputs(program.file, outputs)
    return Measured(_shapes(prepared.inputs), _shapes(state), _shapes(outputs), tuple(recorder.operators))


class _OperatorRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []

    def __torch_dispatch__(
        self, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def _fake() -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def _describe(program: TaskProgram, prepared: Prepared) -> Json:
    state = state_of(prepared.reference)
    graph, reason = _graph(program, prepared)
    outputs = prepared.reference(*prepared.inputs)
    check_outputs(program.file, outputs)
    results = tensors_of(outputs)
    moved = [*tensors_of(prepared.inputs), *state.values(), *results]
    return {
        "init_inputs": _arguments(prepared.init_inputs, program.init_signature()),
        "inputs": _arguments(prepared.inputs, prepared.names),
        "outputs": [tensor_type(tensor) for tensor in results],
        "state": [
            {"name": name, "type": tensor_type(tensor), "parameter": isinstance(tensor, torch.nn.Parameter)}
            for name, tensor in state.items()
        ],
        "graph": graph,
        "graph_absent_reason": reason,
        "minimum_bytes": sum(tensor_bytes(tensor) for tensor in moved),
        "flops": sum(float(str(call["flops"])) for call in _calls(graph)),
    }


def _graph(program: TaskProgram, prepared: Prepared) -> tuple[Json | None, str]:
    try:
        return trace(prepared.reference, prepared.inputs, prepared.names, str(program.file.path)), ""
    except TraceError as error:
        return None, str(error)
    except GuardOnDataDependentSymNode:
        return None, "sizes of the trace depend on values"


def _calls(graph: Json | None) -> list[Json]:
    calls = graph["calls"] if graph is not None else []
    return calls if isinstance(calls, list) else []


def _arguments(values: Sequence[object], names: Sequence[str]) -> list[Json]:
    named = [*names, *(f"arg{index}" for index in range(len(names), len(values)))]
    return [_argument(name, value) for name, value in zip(named, values, strict=False)]


def _argument(name: str, value: object) -> Json:
    if isinstance(value, torch.Tensor):
        return {"name": name, "tensor": tensor_type(value), "literal": ""}
    return {"name": name, "literal": repr(value)[:1000]}


def _shapes(value: object) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(size) for size in tensor.shape) for tensor in tensors_of(value))
