"""Writes the host side of a candidate: the calls between kernels and what stays in torch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from adaexplore_generator.graph import Argument, DTypeRef, ValueKind, ValueRef
from adaexplore_generator.templates.emission import Written
from adaexplore_generator.templates.ir import HostCall, Program, Relabel, Shape, UnsupportedError, operands_of, results_of

_METHODS = frozenset(
    ["view", "_unsafe_view", "reshape", "permute", "transpose", "t", "flatten", "expand", "unsqueeze", "squeeze", "select"]
)


# Where torch offers an operator under a plainer name with the same arguments.
_FUNCTIONS = {name: f"torch.{name}" for name in ("mm", "matmul", "bmm", "addmm", "baddbmm")} | {"linear": "torch.nn.functional.linear"}


class HostWriter:
    """Lines of `forward`, in order; values are named where they are made."""

    def __init__(self, program: Program, arguments: tuple[str, ...]) -> None:
        self._program = program
        self._makers = {name: step for step in program.steps for name in results_of(step)}
        self._arguments = arguments
        self._there: set[str] = set()
        self.lines: list[str] = []

    def launch(self, written: Written) -> None:
        """Runs a group."""
        arguments = ", ".join(self.reference(name) for name in written.params)
        self.lines.append(f"{', '.join(written.outs)} = {written.call}({arguments})")
        self._there.update(written.outs)

    def call(self, step: HostCall) -> None:
        """Runs a call that stays in torch."""
        base = step.operator.split(".")[1]
        shapes = [self._program.values[name].shape for name in operands_of(step) if name in self._program.values]
        names = [name for name in operands_of(step) if name in self._program.values]
        known = dict(zip(names, shapes, strict=True))
        args = [self._argument(here, there, known) for here, there in zip(step.args, step.judged_args, strict=True)]
        kwargs = [
            f"{key}={self._device(known) if key == 'device' else self._argument(here, step.judged_kwargs[key], known)}"
            for key, here in step.kwargs.items()
        ]
        if base in _METHODS and args:
            method = {"view": "reshape", "_unsafe_view": "reshape"}.get(base, base)
            rest = [arg[1:-1] if arg.startswith("[") else arg for arg in args[1:]]
            text = f"{args[0]}.{method}({', '.join([*rest, *kwargs])})"
        else:
            function = _FUNCTIONS.get(base, f"torch.ops.{step.operator}")
            text = f"{function}({', '.join([*args, *kwargs])})"
        outs = ", ".join(step.outs)
        self.lines.append(f"{outs} = {text}" if outs else text)
        self._there.update(step.outs)

    def finish(self) -> None:
        """Returns the outputs."""
        outputs = ", ".join(self.reference(name) for name in self._program.outputs)
        self.lines.append(f"return {outputs}")

    def reference(self, name: str) -> str:
        """Expression of a value: an argument, a path of the module's state, a local name, or a view of one of these."""
        value = self._program.values[name]
        if value.kind is ValueKind.RESULT:
            step = self._makers[name]
            if name not in self._there and isinstance(step, Relabel):
                return self._relabelled(step)
            return name
        if value.kind is ValueKind.INPUT:
            if value.state_name not in self._arguments:
                raise UnsupportedError(f"forward has no argument {value.state_name}")
            return value.state_name
        return state_path(value.state_name)

    def _relabelled(self, step: Relabel) -> str:
        base = self.reference(step.arg)
        sizes = ["1" if axis is None else f"{base}.shape[{axis}]" for axis in step.axes]
        return f"{base}.reshape({', '.join(sizes) or '()'})"

    def _device(self, known: Mapping[str, Shape]) -> str:
        anchor = next(iter(known), None) or next(
            (name for name, value in self._program.values.items() if value.kind is not ValueKind.RESULT), None
        )
        if anchor is None:
            raise UnsupportedError("a tensor made from nothing, on no known device")
        return f"{self.reference(anchor)}.device"

    def _argument(self, here: Argument, there: Argument, known: Mapping[str, Shape]) -> str:
        if isinstance(here, ValueRef):
            return self.reference(here.name)
        if isinstance(here, DTypeRef):
            return f"torch.{here.name}"
        if isinstance(here, tuple) and isinstance(there, tuple) and len(here) == len(there):
            items = [self._item(number, pair, known) for number, pair in enumerate(zip(here, there, strict=True))]
            return f"[{', '.join(items)}]"
        if isinstance(here, int) and isinstance(there, int) and not isinstance(here, bool):
            return self._integer(here, there, known)
        if here == there and not isinstance(here, tuple):
            return f'float("{here}")' if isinstance(here, float) and here in (float("inf"), float("-inf")) else repr(here)
        raise UnsupportedError("an argument that depends on the shape")

    def _item(self, number: int, pair: tuple[Argument, Argument], known: Mapping[str, Shape]) -> str:
        """An item of a list; an extent that the first operand has at the same place is read from there, whatever the shape."""
        name, shape = next(iter(known.items()), ("", ()))
        if number < len(shape) and shape[number] == pair and pair != (1, 1):
            return f"{self.reference(name)}.shape[{number}]"
        return self._argument(*pair, known)

    def _integer(self, here: int, there: int, known: Mapping[str, Shape]) -> str:
        """An integer as it is, or, if it changes with the shape, by extents of the operands or of the task's inputs."""
        if here == there:
            return repr(here)
        inputs = {name: value.shape for name, value in self._program.values.items() if value.kind is ValueKind.INPUT}
        for name, shape in {**known, **inputs}.items():
            found = _by_extents(self.reference(name), shape, here, there)
            if found is not None:
                return found
        raise UnsupportedError("an integer that depends on the shape in no known way")


def _by_extents(base: str, shape: Shape, here: int, there: int) -> str | None:
    """The shortest of: an extent, a product of adjacent extents, or one of these divided or multiplied by a constant."""
    found: list[tuple[int, str]] = []
    for start in range(len(shape)):
        full, judged = 1, 1
        for stop in range(start, len(shape)):
            full, judged = full * shape[stop][0], judged * shape[stop][1]
            text = " * ".join(f"{base}.shape[{axis}]" for axis in range(start, stop + 1))
            cost = 2 * (stop - start)
            if (full, judged) == (here, there):
                found.append((cost, text))
            elif here and there and full % here == 0 and judged % there == 0 and full // here == judged // there:
                found.append((cost + 1, f"{text} // {full // here}"))
            elif full and judged and here % full == 0 and there % judged == 0 and here // full == there // judged:
                found.append((cost + 1, f"{text} * {here // full}"))
    return min(found)[1] if found else None


def state_path(state_name: str) -> str:
    """Expression that reads a parameter or buffer of the module: `self.layers[0].weight`."""
    text = "self"
    for part in state_name.split("."):
        if part.isdigit():
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_]\w*", part):
            text += f".{part}"
        else:
            raise UnsupportedError(f"the state name {state_name}")
    return text
