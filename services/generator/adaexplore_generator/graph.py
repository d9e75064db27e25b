"""A task's operator graph in plain Python: what the `templates` provider reads, free of protos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class ValueKind(Enum):
    """Where a value of an operator graph comes from."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    RESULT = "result"


class TaskFormat(Enum):
    """How a task file states its reference: a `Model` class or a function."""

    MODULE = "module"
    FUNCTION = "function"


@dataclass(frozen=True)
class TensorType:
    """Type of one tensor: `dtype` as torch spells it (`float32`), extents and strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class GraphValue:
    """One tensor of a graph; `state_name` is the state path of parameters and buffers and the argument name of inputs."""

    name: str
    type: TensorType
    kind: ValueKind
    state_name: str = ""


@dataclass(frozen=True)
class ValueRef:
    """An argument that is a tensor of the graph, by its name."""

    name: str


@dataclass(frozen=True)
class DTypeRef:
    """An argument that is a dtype, as torch spells it (`float32`)."""

    name: str


Argument = ValueRef | DTypeRef | bool | int | float | str | tuple["Argument", ...] | None
"""One argument of an operator call; lists are tuples."""


@dataclass(frozen=True)
class OperatorCall:
    """One call of an ATen overload such as `aten.linear.default`, with the names of the values it produces."""

    operator: str
    args: tuple[Argument, ...] = ()
    kwargs: Mapping[str, Argument] = field(default_factory=lambda: MappingProxyType({}))
    results: tuple[str, ...] = ()
    flops: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    line: int = 0


@dataclass(frozen=True)
class OperatorGraph:
    """A traced graph in topological order at one set of shapes; `outputs` are what the task returns."""

    values: tuple[GraphValue, ...] = ()
    calls: tuple[OperatorCall, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskInput:
    """One argument of the constructor or of `forward`: a tensor's type, or the literal of anything else."""

    name: str
    tensor: TensorType | None = None
    literal: str = ""


@dataclass(frozen=True)
class StateEntry:
    """One entry of the reference's `state_dict`."""

    name: str
    type: TensorType
    parameter: bool = True


@dataclass(frozen=True)
class TaskDescription:
    """What the evaluator found out about a task; `judged_graph` is absent where both shapes are equal."""

    digest: str = ""
    format: TaskFormat = TaskFormat.MODULE
    entry_point: str = "ModelNew"
    init_inputs: tuple[TaskInput, ...] = ()
    inputs: tuple[TaskInput, ...] = ()
    outputs: tuple[TensorType, ...] = ()
    state: tuple[StateEntry, ...] = ()
    graph: OperatorGraph | None = None
    graph_absent_reason: str = ""
    minimum_bytes: int = 0
    flops: float = 0.0
    judged_inputs: tuple[TaskInput, ...] = ()
    judged_graph: OperatorGraph | None = None
