"""Lowers a task's operator graph to the intermediate form; what has no template becomes a host call."""

from __future__ import annotations

from adaexplore_generator.graph import Argument, GraphValue, OperatorCall, OperatorGraph, TaskDescription, ValueKind, ValueRef
from adaexplore_generator.templates.builder import Builder, CallReader, Mark
from adaexplore_generator.templates.ir import HostCall, Product, Program, Shape, UnsupportedError, Value, results_of, tensors_in
from adaexplore_generator.templates.late_views import take_views_late
from adaexplore_generator.templates.pointwise_operators import POINTWISE
from adaexplore_generator.templates.product_operators import PRODUCTS, Lowering, without_bias
from adaexplore_generator.templates.row_operators import ROWS
from adaexplore_generator.templates.scheduling import VIEWS, schedule
from adaexplore_generator.templates.views import take_views_early

_LOWERINGS = {**POINTWISE, **ROWS, **PRODUCTS}


def lower(description: TaskDescription, library: frozenset[int] = frozenset()) -> Program:
    """The task as a program; UnsupportedError if there is no graph or it holds what no candidate can name.

    `library` numbers matrix products, in the graph's order, that stay in torch.
    """
    graph = description.graph
    if graph is None:
        raise UnsupportedError(f"the task has no operator graph: {description.graph_absent_reason or 'it was not traced'}")
    judged = description.judged_graph or graph
    if len(judged.calls) != len(graph.calls):
        raise UnsupportedError("the graphs of both shapes differ")
    return _Lowerer(graph, judged, library).run()


class _Lowerer:
    """One run over a graph."""

    def __init__(self, graph: OperatorGraph, judged: OperatorGraph, library: frozenset[int]) -> None:
        self._graph = graph
        self._judged = judged
        self._builder = Builder()
        self._names: dict[str, str] = {}
        self._judged_of: dict[str, str] = {}
        self._types = {value.name: value for value in graph.values}
        self._judged_types = {value.name: value for value in judged.values}
        self._origins: dict[str, int] = {}
        self._used = _used_names(graph)
        self._library = library
        self._product_depths: list[int] = []

    def run(self) -> Program:
        """Lowers every call in order."""
        self._declare_sources()
        for number, (call, judged) in enumerate(zip(self._graph.calls, self._judged.calls, strict=True)):
            if call.operator != judged.operator:
                raise UnsupportedError("the graphs of both shapes differ")
            self._judged_of.update(zip(call.results, judged.results, strict=False))
            known = len(self._builder.steps)
            self._lower_call(_out_of_place(call, self._graph), _renamed(judged, self._judged_of))
            self._origins.update((name, number) for step in self._builder.steps[known:] for name in results_of(step))
        outputs = tuple(self._names[name] for name in self._graph.outputs)
        take_views_early(self._builder, outputs, self._origins)
        take_views_late(self._builder, outputs, self._origins)
        steps = schedule(self._builder.steps, self._builder.values, outputs)
        return Program(dict(self._builder.values), steps, outputs, self._origins, tuple(self._product_depths))

    def _declare_sources(self) -> None:
        for value, judged in zip(_sources(self._graph), _sources(self._judged), strict=True):
            self._judged_of[value.name] = judged.name
            if value.kind is ValueKind.CONSTANT:
                raise UnsupportedError(f"the graph holds the constant {value.name}, which a candidate cannot name")
            hint = value.state_name if value.kind is ValueKind.INPUT else value.state_name.replace(".", "_")
            name = self._builder.fresh(hint or value.name)
            shape = self._shape(value.name)
            self._names[value.name] = self._builder.add_value(Value(name, shape, value.type.dtype, value.kind, value.state_name))

    def _shape(self, name: str) -> Shape:
        full = self._types[name].type.shape
        judged = self._judged_types[self._judged_of[name]].type.shape
        if len(full) != len(judged):
            raise UnsupportedError("a value changes its rank between the shapes")
        return tuple(zip(full, judged, strict=True))

    def _lower_call(self, call: OperatorCall, judged: OperatorCall) -> None:
        mark = self._builder.mark()
        results = self._tried(_lowering_of(call), call, judged)
        if results is not None and _base(call) in PRODUCTS:
            self._product_depths.append(self._depth(mark))
            if len(self._product_depths) - 1 in self._library:
                self._builder.rewind(mark)
                results = self._tried(without_bias, call, judged) if self._read_by_kernels(call.results[0]) else None
        if results is None:
            self._keep_in_torch(call, judged)
            return
        for name, result in zip(call.results, results, strict=False):
            self._bind(name, result)

    def _tried(self, lowering: Lowering | None, call: OperatorCall, judged: OperatorCall) -> tuple[str, ...] | None:
        """Results of a lowering; None, with nothing left behind, if it does not support the call."""
        mark = self._builder.mark()
        try:
            return self._lowered(lowering, call, judged)
        except UnsupportedError:
            self._builder.rewind(mark)
            return None

    def _depth(self, mark: Mark) -> int:
        """Length of the summed dimension of the product made since a mark."""
        product = next(step for step in self._builder.steps[mark.steps :] if isinstance(step, Product))
        return self._builder.shape(product.left)[-1][0]

    def _read_by_kernels(self, name: str) -> bool:
        """Whether a call reads a value that a kernel may compute."""
        readers = (other for other in self._graph.calls if name in tensors_in(other.args))
        return any(_base(other) in POINTWISE or _base(other) in ROWS for other in readers)

    def _lowered(self, lowering: Lowering | None, call: OperatorCall, judged: OperatorCall) -> tuple[str, ...]:
        reader = CallReader(call, judged, self._names, self._builder)
        if _base(call) in {"expand", "expand_as"}:
            # A broadcast costs nothing inside a kernel, so it needs no view.
            return (self._builder.map("identity", reader.float_tensor(0, "self"), hint=reader.result, shape=self._shape(reader.result)),)
        if lowering is None:
            raise UnsupportedError(call.operator)
        results = lowering(reader)
        if any(name in self._used for name in call.results[len(results) :]):
            raise UnsupportedError(f"further results of {call.operator}")
        for name, result in zip(call.results, results, strict=False):
            if self._builder.shape(result) != self._shape(name):
                raise UnsupportedError(f"{call.operator} with a shape of its own")
            if not _storable(self._types[name].type.dtype, self._builder.values[result].dtype):
                raise UnsupportedError(f"{call.operator} gives {self._types[name].type.dtype}")
        return results

    def _bind(self, name: str, result: str) -> None:
        """Gives a lowered value the graph's dtype, in which it is stored if it leaves a kernel."""
        self._names[name] = result
        value = self._builder.values[result]
        if value.kind is ValueKind.RESULT and value.dtype == "float32":
            dtype = self._types[name].type.dtype
            self._builder.values[result] = Value(value.name, value.shape, dtype)

    def _keep_in_torch(self, call: OperatorCall, judged: OperatorCall) -> None:
        outs = []
        for name in call.results:
            if name not in self._types or name not in self._judged_of:
                outs.append("_")
                continue
            fresh = self._builder.fresh(name)
            outs.append(self._builder.add_value(Value(fresh, self._shape(name), self._types[name].type.dtype)))
        translated = tuple(_translated(argument, self._names) for argument in call.args)
        kwargs = {key: _translated(argument, self._names) for key, argument in call.kwargs.items()}
        step = HostCall(tuple(outs), call.operator, translated, kwargs, judged.args, judged.kwargs, _has_effect(call))
        self._builder.steps.append(step)
        for name, out in zip(call.results, outs, strict=True):
            self._names[name] = out


def _base(call: OperatorCall) -> str:
    """Name of an operator without namespace and overload."""
    return call.operator.split(".")[1]


def _lowering_of(call: OperatorCall) -> Lowering | None:
    return _LOWERINGS.get(_base(call))


def _sources(graph: OperatorGraph) -> list[GraphValue]:
    return [value for value in graph.values if value.kind is not ValueKind.RESULT]


def _used_names(graph: OperatorGraph) -> set[str]:
    used = set(graph.outputs)
    for call in graph.calls:
        for argument in (*call.args, *call.kwargs.values()):
            used.update(tensors_in(argument))
    return used


def _translated(argument: Argument, names: dict[str, str]) -> Argument:
    if isinstance(argument, ValueRef):
        return ValueRef(names[argument.name])
    if isinstance(argument, tuple):
        return tuple(_translated(item, names) for item in argument)
    return argument


def _renamed(judged: OperatorCall, judged_of: dict[str, str]) -> OperatorCall:
    """The judged call with the full graph's names, so that both can be compared argument by argument."""
    back = {there: here for here, there in judged_of.items()}
    args = tuple(_translated(argument, back) for argument in judged.args)
    kwargs = {key: _translated(argument, back) for key, argument in judged.kwargs.items()}
    return OperatorCall(judged.operator, args, kwargs, judged.results)


def _storable(wanted: str, have: str) -> bool:
    floats = {"float32", "float16", "bfloat16"}
    return wanted == have or (wanted in floats and have in floats)


def _has_effect(call: OperatorCall) -> bool:
    base = call.operator.split(".")[1]
    return (base.endswith("_") and not base.startswith("_")) or base in {"batch_norm", "_native_batch_norm_legit", "copy_"}


def _out_of_place(call: OperatorCall, graph: OperatorGraph) -> OperatorCall:
    """An in-place call as its plain form, where nothing else can see the difference."""
    base = call.operator.split(".")[1]
    if not base.endswith("_") or base[:-1] not in _LOWERINGS or not isinstance(call.args[0], ValueRef) or not call.results:
        return call
    target = call.args[0].name
    maker = next((other for other in graph.calls if target in other.results), None)
    readers = sum(target in tensors_in(arg) for other in graph.calls for arg in (*other.args, *other.kwargs.values()))
    fresh = maker is not None and maker.operator.split(".")[1] not in VIEWS and readers == 1 and target not in graph.outputs
    if not fresh:
        return call
    overload = call.operator.split(".")[2]
    return OperatorCall(f"aten.{base[:-1]}.{overload}", call.args, call.kwargs, call.results)
