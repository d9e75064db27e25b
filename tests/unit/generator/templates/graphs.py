"""Operator graphs of modules, by torch.export, as the templates read them."""

from __future__ import annotations

import inspect

import torch
from adaexplore_generator.graph import (
    DTypeRef,
    GraphValue,
    OperatorCall,
    OperatorGraph,
    TaskDescription,
    TaskFormat,
    TensorType,
    ValueKind,
    ValueRef,
)


def tensor_type(tensor: torch.Tensor) -> TensorType:
    return TensorType(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride()))


def argument(value):
    if isinstance(value, torch.fx.Node):
        return ValueRef(value.name)
    if isinstance(value, torch.dtype):
        return DTypeRef(str(value).removeprefix("torch."))
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(argument(item) for item in value)
    return value


def trace(module: torch.nn.Module, inputs: tuple) -> OperatorGraph:
    program = torch.export.export(module, inputs)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    kinds = {"PARAMETER": ValueKind.PARAMETER, "BUFFER": ValueKind.BUFFER, "USER_INPUT": ValueKind.INPUT}
    values, calls, outputs = {}, [], ()
    arguments = iter(inspect.signature(module.forward).parameters)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            kind = kinds.get(spec.kind.name, ValueKind.CONSTANT)
            state = next(arguments) if kind is ValueKind.INPUT else spec.target
            if isinstance(node.meta.get("val"), torch.Tensor):
                values[node.name] = GraphValue(node.name, tensor_type(node.meta["val"]), kind, state)
        elif node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            found = node.meta["val"]
            many = isinstance(found, list | tuple)
            names = [f"{node.name}_{number}" for number in range(len(found))] if many else [node.name]
            for name, result in zip(names, found if many else [found], strict=True):
                values[name] = GraphValue(name, tensor_type(result), ValueKind.RESULT)
            args = tuple(argument(arg) for arg in node.args)
            kwargs = {key: argument(arg) for key, arg in node.kwargs.items()}
            calls.append(
                OperatorCall(str(node.target), _unpacked(args), {key: _unpacked((arg,))[0] for key, arg in kwargs.items()}, tuple(names))
            )
        elif node.op == "call_function":
            _alias[node.name] = f"{node.args[0].name}_{node.args[1]}"
        elif node.op == "output":
            outputs = tuple(_alias.get(arg.name, arg.name) for arg in node.args[0])
    used = {name for call in calls for name in _mentioned(call.args)} | {n for c in calls for n in _mentioned(tuple(c.kwargs.values()))}
    kept = {name: value for name, value in values.items() if value.kind is ValueKind.RESULT or name in used or name in outputs}
    return OperatorGraph(tuple(kept.values()), tuple(calls), outputs)


_alias: dict[str, str] = {}


def _unpacked(args):
    out = []
    for arg in args:
        if isinstance(arg, ValueRef):
            out.append(ValueRef(_alias.get(arg.name, arg.name)))
        elif isinstance(arg, tuple):
            out.append(_unpacked(arg))
        else:
            out.append(arg)
    return tuple(out)


def _mentioned(args):
    for arg in args:
        if isinstance(arg, ValueRef):
            yield arg.name
        elif isinstance(arg, tuple):
            yield from _mentioned(arg)


def load(source: str, constants: dict[str, int] | None = None) -> dict:
    text = source
    for name, value in (constants or {}).items():
        lines = [f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in text.splitlines()]
        text = "\n".join(lines)
    namespace: dict = {"__name__": "task"}
    exec(compile(text, "task.py", "exec"), namespace)
    return namespace


def describe(
    source: str, judged: dict[str, int] | None = None, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> TaskDescription:
    """Description of a KernelBench-form source at its own constants, and at the judged ones; modules in eval mode."""
    graphs = []
    for constants in ({}, judged or {}):
        space = load(source, constants)
        with torch.device(device):
            inputs = tuple(value.to(dtype) if value.is_floating_point() else value for value in space["get_inputs"]())
            module = space["Model"](*space["get_init_inputs"]()).to(dtype).eval()
        graphs.append(trace(module, inputs))
    return TaskDescription(format=TaskFormat.MODULE, graph=graphs[0], judged_graph=graphs[1] if judged else None)
