"""Traces a reference to the operator graph of its task, in the JSON mapping of `adaexplore.types.v1.OperatorGraph`."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from adaexplore_evaluator.runner.costs import cost_of, is_view_call
from adaexplore_evaluator.runner.wire import DTYPE_NAMES, tensors_of

Json = dict[str, object]

_KINDS = {
    InputKind.USER_INPUT: "VALUE_KIND_INPUT",
    InputKind.PARAMETER: "VALUE_KIND_PARAMETER",
    InputKind.BUFFER: "VALUE_KIND_BUFFER",
    InputKind.CONSTANT_TENSOR: "VALUE_KIND_CONSTANT",
}


class TraceError(Exception):
    """The reference cannot be written as a graph of ATen operators."""


@dataclass
class _Builder:
    path: str
    values: list[Json] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    names: dict[torch.fx.Node, str] = field(default_factory=dict)


def trace(reference: Callable[..., object], inputs: Sequence[object], input_names: Sequence[str], path: str) -> Json:
    """The operator graph of one call of `reference`, whose tensors may be fake; TraceError with the reason otherwise."""
    module = reference if isinstance(reference, torch.nn.Module) else _FunctionModule(reference)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, tuple(inputs), strict=False)
    except Exception as error:  # export fails with exceptions of its own and with whatever the task raises
        raise TraceError(f"torch.export: {type(error).__name__}: {_first_line(error)}") from error
    return _graph_of(program, input_names, path)


def warm_up() -> None:
    """Trace something small, so that the first task does not pay for what torch imports on the way."""
    with FakeTensorMode():
        trace(torch.nn.Identity(), [torch.zeros(1)], ["x"], "")


def tensor_type(tensor: torch.Tensor) -> Json:
    """The JSON mapping of a TensorType."""
    return {
        "dtype": dtype_name(tensor.dtype),
        "shape": [int(size) for size in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()],
    }


def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype in the enum DType; TraceError for one that it lacks."""
    if dtype not in DTYPE_NAMES:
        raise TraceError(f"{dtype} has no place in the operator graph")
    return f"D_TYPE_{DTYPE_NAMES[dtype].upper()}"


class _FunctionModule(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: object) -> object:
        """Call the function."""
        return self._function(*args)


def _graph_of(program: torch.export.ExportedProgram, input_names: Sequence[str], path: str) -> Json:
    builder = _Builder(path)
    specs = iter(program.graph_signature.input_specs)
    names = iter(input_names)
    outputs: list[str] = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            _add_placeholder(builder, node, next(specs), names)
        elif node.op == "call_function":
            _add_call(builder, node)
        elif node.op == "output":
            returned = program.graph_signature.user_outputs
            outputs = [str(name) for name in returned if isinstance(name, str)]
        else:
            raise TraceError(f"the trace holds a {node.op} node")
    return {"values": builder.values, "calls": builder.calls, "outputs": outputs}


def _add_placeholder(builder: _Builder, node: torch.fx.Node, spec: InputSpec, names: object) -> None:
    user = spec.kind is InputKind.USER_INPUT
    argument_name = next(names, node.name) if user else ""  # type: ignore[call-overload]
    if not isinstance(spec.arg, TensorArgument):
        return
    if spec.kind not in _KINDS:
        raise TraceError(f"the trace takes a {spec.kind.name.lower()}")
    builder.names[node] = node.name
    state_name = argument_name if user else str(spec.target or "")
    builder.values.append({"name": node.name, "type": tensor_type(node.meta["val"]), "kind": _KINDS[spec.kind], "state_name": state_name})


def _add_call(builder: _Builder, node: torch.fx.Node) -> None:
    if getattr(node.target, "__name__", "") == "getitem":
        return
    if not isinstance(node.target, torch._ops.OpOverload):
        raise TraceError(f"the trace calls {node.target}, which is no ATen operator")
    results = _add_results(builder, node)
    args, kwargs = _live(node.args), _live(node.kwargs)
    view = is_view_call(node.target, args, kwargs)  # type: ignore[arg-type]
    cost = cost_of(node.target, args, kwargs, node.meta.get("val"), view)  # type: ignore[arg-type]
    builder.calls.append(
        {
            "operator": str(node.target),
            "args": [_argument(builder, item) for item in node.args],
            "kwargs": {name: _argument(builder, item) for name, item in node.kwargs.items()},
            "results": results,
            "flops": cost.flops,
            "bytes_read": cost.bytes_read,
            "bytes_written": cost.bytes_written,
            "line": _task_line(node, builder.path),
        }
    )


def _add_results(builder: _Builder, node: torch.fx.Node) -> list[str]:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        items = [(node.name, value)]
        builder.names[node] = node.name
    else:
        users = {user.args[1]: user for user in node.users if getattr(user.target, "__name__", "") == "getitem"}
        items = []
        for index, tensor in enumerate(tensors_of(value)):
            user = users.get(index)
            name = user.name if user is not None else f"{node.name}_{index}"
            if user is not None:
                builder.names[user] = name
            items.append((name, tensor))
    builder.values += [{"name": name, "type": tensor_type(tensor), "kind": "VALUE_KIND_RESULT", "state_name": ""} for name, tensor in items]
    return [name for name, _ in items]


def _argument(builder: _Builder, value: object) -> Json:
    if value is None:
        return {}
    if isinstance(value, torch.fx.Node):
        if value not in builder.names:
            raise TraceError(f"{value.name} is no tensor")
        return {"value_name": builder.names[value]}
    if isinstance(value, list | tuple):
        return {"list_value": {"items": [_argument(builder, item) for item in value]}}
    return _literal(value)


def _literal(value: object) -> Json:
    if isinstance(value, bool):
        return {"bool_value": value}
    if isinstance(value, int):
        return {"int_value": value}
    if isinstance(value, float):
        return {"float_value": json_float(value)}
    return {"dtype_value": dtype_name(value)} if isinstance(value, torch.dtype) else {"string_value": str(value)}


def json_float(value: float) -> float | str:
    """A float as the JSON mapping of protobuf writes it: infinities and NaN by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _live(value: object) -> object:
    """Arguments with the fake tensors of their nodes in the nodes' places."""
    if isinstance(value, torch.fx.Node):
        return value.meta.get("val")
    if isinstance(value, list | tuple):
        return [_live(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _live(item) for key, item in value.items()}
    return value


def _task_line(node: torch.fx.Node, path: str) -> int:
    places = re.findall(rf'File "{re.escape(path)}", line (\d+)', node.meta.get("stack_trace") or "")
    return int(places[-1]) if places else 0


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else ""
