"""Running state of the reductions of one pass over a row."""

from __future__ import annotations

from adaexplore_generator.templates.emission import Context
from adaexplore_generator.templates.frames import Node
from adaexplore_generator.templates.row_plan import RowPlan

_NEUTRAL = {"sum": "0.0", "max": 'float("-inf")', "top": 'float("-inf")', "min": 'float("inf")'}


def reduce_line(context: Context, node: Node, mask: str) -> str:
    """The line that reduces a tile held in registers."""
    arg = str(node.args[0])
    tile = f"tl.where({mask}, {arg}, {_NEUTRAL[node.function]})" if mask else arg
    return f"{node.name} = {across(context, node.function, tile)}"


def across(context: Context, kind: str, tile: str) -> str:
    """Expression that reduces a tile along axis 1."""
    if kind == "sum":
        return f"tl.sum({tile}, axis=1, keep_dims=True)"
    if kind == "top":
        # The maximum that exponentials are shifted by: they carry NaN themselves.
        return f"tl.max({tile}, axis=1, keep_dims=True)"
    return f"{context.helper(f'row_{kind}')}({tile})"


def _exp(context: Context, argument: str) -> str:
    return context.spelling["exp"].template.format(argument)


def _exponential_guard(kind: str, value: str) -> str:
    """Test of a maximum for which 0 must stand: minus infinity, and for log-sum-exp plus infinity too."""
    return f'{value} == float("-inf")' if kind == "softmax" else f'tl.abs({value}) == float("inf")'


def combined_lines(context: Context, plan: RowPlan) -> list[str]:
    """Lines that combine the partial statistics of a row, loaded side by side, into its statistics."""
    lines = []
    for node in plan.reductions(0):
        names = plan.partners(node)
        if node.function == "moments":
            mean, variance = names
            lines += [
                f"total_count = tl.sum({mean}_count_parts, axis=1, keep_dims=True)",
                f"{mean} = tl.sum({mean}_parts * {mean}_count_parts, axis=1, keep_dims=True) / total_count",
                f"shift = {mean}_parts - {mean}",
                f"squares = {variance}_parts + shift * shift * {mean}_count_parts",
                f"{variance} = tl.sum(squares, axis=1, keep_dims=True) / total_count",
            ]
        elif node.function in {"softmax", "logsumexp"}:
            top, total = names
            lines += [
                f"{top} = tl.max({top}_parts, axis=1, keep_dims=True)",
                f"{top} = tl.where({_exponential_guard(node.function, top)}, 0.0, {top})",
                f"{total} = tl.sum({total}_parts * {_exp(context, f'{top}_parts - {top}')}, axis=1, keep_dims=True)",
            ]
        else:
            lines.append(f"{names[0]} = {across(context, node.function, f'{names[0]}_parts')}")
    return lines


class Accumulators:
    """Writes the beginning, the step and the end of every reduction of a pass.

    The knob `accumulate` says where partial results live: `tile` keeps one a column and reduces across at the end, `row` reduces every
    block across at once.
    """

    def __init__(self, context: Context, plan: RowPlan, level: int) -> None:
        self._context = context
        self._plan = plan
        self._nodes = plan.reductions(level)
        self._tile = context.knobs.get("accumulate") == "tile"

    def begin(self) -> list[str]:
        """Lines before the loop."""
        return [line for node in self._nodes for line in self._begin(node)]

    def step(self, stop: str) -> list[str]:
        """Lines at the end of the loop's body, for a loop whose blocks begin at `start` and that ends at `stop`."""
        return [line for node in self._nodes for line in self._step(node, stop)]

    def finish(self) -> list[str]:
        """Lines after the loop."""
        return [line for node in self._nodes for line in self._finish(node)]

    def parts(self) -> list[tuple[str, str]]:
        """Names of the buffers that hold partial statistics, each with the value that `partial` leaves for it."""
        found = []
        for node in self._nodes:
            names = self._names(node)
            if node.function == "moments":
                mean, variance = names
                count = f"{mean}_count + tl.zeros([ROWS, 1], tl.float32)"
                found += [(f"{mean}_parts", mean), (f"{variance}_parts", f"{variance}_sum"), (f"{mean}_count_parts", count)]
            else:
                found += [(f"{name}_parts", name) for name in names]
        return found

    def partial(self) -> list[str]:
        """Lines after the loop that leave statistics which can still be combined."""
        lines = []
        for node in self._nodes:
            if node.function in {"softmax", "logsumexp"}:
                lines += self._exponentials_partial(node.function, *self._names(node))
            elif node.function != "moments":
                lines += self._finish(node)
        return lines

    def _exponentials_partial(self, kind: str, top: str, total: str) -> list[str]:
        if not self._tile:
            return [f"{top} = {top}_acc", f"{total} = {total}_acc"]
        return [
            f"{top} = tl.max({top}_acc, axis=1, keep_dims=True)",
            f"shift = tl.where({_exponential_guard(kind, top)}, 0.0, {top})",
            f"{total} = tl.sum({total}_acc * {_exp(self._context, f'{top}_acc - shift')}, axis=1, keep_dims=True)",
        ]

    def _names(self, node: Node) -> tuple[str, ...]:
        return self._plan.partners(node)

    def _begin(self, node: Node) -> list[str]:
        names = self._names(node)
        if node.function == "moments":
            return [
                f"{names[0]}_count = 0.0",
                f"{names[0]} = tl.zeros([ROWS, 1], tl.float32)",
                f"{names[1]}_sum = tl.zeros([ROWS, 1], tl.float32)",
            ]
        shape = "[ROWS, BLOCK]" if self._tile else "[ROWS, 1]"
        if node.function in {"softmax", "logsumexp"}:
            top, total = names
            return [f'{top}_acc = tl.full({shape}, float("-inf"), tl.float32)', f"{total}_acc = tl.zeros({shape}, tl.float32)"]
        return [f"{names[0]}_acc = tl.full({shape}, {_NEUTRAL[node.function]}, tl.float32)"]

    def _step(self, node: Node, stop: str) -> list[str]:
        arg, names = str(node.args[0]), self._names(node)
        if node.function == "moments":
            return self._moments_step(arg, stop, *names)
        if node.function in {"softmax", "logsumexp"}:
            return self._exponentials_step(node.function, arg, *names)
        tile = f"tl.where(col_mask, {arg}, {_NEUTRAL[node.function]})"
        block = tile if self._tile else across(self._context, node.function, tile)
        acc = f"{names[0]}_acc"
        if node.function == "sum":
            return [f"{acc} += {block}"]
        if node.function == "top":
            return [f"{acc} = tl.maximum({acc}, {block})"]
        return [f"{acc} = {self._context.helper('maximum' if node.function == 'max' else 'minimum')}({acc}, {block})"]

    def _moments_step(self, arg: str, stop: str, mean: str, variance: str) -> list[str]:
        return [
            "# Welford's update with the statistics of a whole block.",
            f"block_count = tl.minimum({stop} - start, BLOCK).to(tl.float32)",
            f"block_mean = tl.sum(tl.where(col_mask, {arg}, 0.0), axis=1, keep_dims=True) / block_count",
            f"distance = tl.where(col_mask, {arg} - block_mean, 0.0)",
            "block_squares = tl.sum(distance * distance, axis=1, keep_dims=True)",
            f"shift = block_mean - {mean}",
            f"share = block_count / ({mean}_count + block_count)",
            f"{mean} += shift * share",
            f"{variance}_sum += block_squares + shift * shift * {mean}_count * share",
            f"{mean}_count += block_count",
        ]

    def _exponentials_step(self, kind: str, arg: str, top: str, total: str) -> list[str]:
        guard = _exponential_guard(kind, "above")
        tile = "entry" if self._tile else "tl.max(entry, axis=1, keep_dims=True)"
        raised = _exp(self._context, "entry - shift")
        return [
            f'entry = tl.where(col_mask, {arg}, float("-inf"))',
            f"above = tl.maximum({top}_acc, {tile})",
            "# As long as nothing finite was seen, 0 stands for the maximum: infinity less infinity is not a number.",
            f"shift = tl.where({guard}, 0.0, above)",
            f"{total}_acc = {total}_acc * {_exp(self._context, f'{top}_acc - shift')} + "
            + (raised if self._tile else f"tl.sum({raised}, axis=1, keep_dims=True)"),
            f"{top}_acc = above",
        ]

    def _finish(self, node: Node) -> list[str]:
        names = self._names(node)
        if node.function == "moments":
            return [f"{names[1]} = {names[1]}_sum / {names[0]}_count"]
        if node.function in {"softmax", "logsumexp"}:
            return self._exponentials_finish(node.function, *names)
        acc = f"{names[0]}_acc"
        return [f"{names[0]} = {across(self._context, node.function, acc) if self._tile else acc}"]

    def _exponentials_finish(self, kind: str, top: str, total: str) -> list[str]:
        def guarded(value: str) -> str:
            return f"tl.where({_exponential_guard(kind, value)}, 0.0, {value})"

        if not self._tile:
            return [f"{top} = {guarded(f'{top}_acc')}", f"{total} = {total}_acc"]
        lane = _exp(self._context, f"{top}_acc - {top}")
        return [
            f"{top} = tl.max({top}_acc, axis=1, keep_dims=True)",
            f"{top} = {guarded(top)}",
            f"{total} = tl.sum({total}_acc * {lane}, axis=1, keep_dims=True)",
        ]
