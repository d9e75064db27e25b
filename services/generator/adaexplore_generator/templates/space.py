"""What may be chosen: algorithms of a group, their knobs with values and defaults, and spellings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.functions import spelled_functions
from adaexplore_generator.templates.pointwise_writer import column_dims
from adaexplore_generator.templates.row_plan import PAIRS, plan_rows

SPLIT_DEPTH = 512
"""Least length of a summed dimension that several programs may share; a shorter one is not worth a second kernel."""

REGISTER_ELEMENTS = 65536
"""Most elements of a row that one program holds in registers; wider blocks take minutes to compile and spill."""

_LEAST_SPLITS = 8
_SPLIT_BLOCKS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Knob:
    """One number or word of a kernel: its values in order, neighbours next to each other, and where to start."""

    name: str
    values: tuple[int | str, ...]
    default: int | str


def power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def algorithms(group: Group) -> tuple[str, ...]:
    """Algorithms that fit a group at its full shape."""
    if group.kind == "pointwise":
        return ("flat", "persistent", "rows") if column_dims(group) else ("flat", "persistent")
    if group.kind == "product":
        found = ["tiled", "grouped", "persistent"]
        if group.depth >= SPLIT_DEPTH:
            found.insert(2, "split_k")
        return tuple(found)
    found = ["looped"]
    if group.size(group.reduced) <= REGISTER_ELEMENTS:
        found.insert(0, "one_pass")
    if any(node.function in PAIRS for node in group.nodes if node.kind == "reduce"):
        found.append("online")
    if splittable(group):
        found.append("split")
    if "split" in found and group.size(group.outer_dims + group.inner_dims) < 64 and group.size(group.reduced) > 4 * REGISTER_ELEMENTS:
        # With so few rows a program a row leaves most of a GPU idle.
        return ("split",)
    return tuple(found)


def splittable(group: Group) -> bool:
    """Whether all reductions read the row itself, so that several programs can share a row, and it is long enough for that."""
    if power_of_two(group.size(group.reduced)) < _LEAST_SPLITS * _least_block(group):
        return False
    plan = plan_rows(group, fused_pairs=True)
    return max(plan.levels.values()) <= 1


def knobs(group: Group, algorithm: str) -> tuple[Knob, ...]:
    """Knobs of a group under an algorithm."""
    if group.kind == "pointwise":
        return _pointwise_knobs(algorithm)
    if group.kind == "product":
        return _product_knobs(group, algorithm)
    return _row_knobs(group, algorithm)


def defaults(group: Group, algorithm: str) -> tuple[tuple[str, int | str], ...]:
    """Where every knob starts."""
    return tuple((knob.name, knob.default) for knob in knobs(group, algorithm))


def _pointwise_knobs(algorithm: str) -> tuple[Knob, ...]:
    found = [Knob("BLOCK", (256, 512, 1024, 2048, 4096, 8192), 1024), Knob("num_warps", (1, 2, 4, 8, 16), 4)]
    if algorithm == "persistent":
        found.append(Knob("PROGRAMS", (132, 264, 528, 1056, 2112), 1056))
    return tuple(found)


def _row_knobs(group: Group, algorithm: str) -> tuple[Knob, ...]:
    width = power_of_two(group.size(group.reduced))
    inner = group.size(group.inner_dims) > 1
    if algorithm == "one_pass":
        return _one_pass_knobs(width, inner)
    blocks = tuple(block for block in ((8, 16, 32, 64, 128) if inner else (512, 1024, 2048, 4096, 8192)) if block <= max(width, 512))
    start = 32 if inner else min(4096, max(width, 512))
    if algorithm == "split":
        return (*_lane_knobs(inner), *_split_knobs(group, width, start))
    return (*_lane_knobs(inner), Knob("BLOCK", blocks, start), Knob("num_stages", (1, 2, 3, 4), 2))


def _lane_knobs(inner: bool) -> tuple[Knob, ...]:
    return (
        Knob("ROWS", (16, 32, 64, 128) if inner else (1, 2, 4), 64 if inner else 1),
        Knob("num_warps", (2, 4, 8, 16), 4 if inner else 8),
        Knob("accumulate", ("row", "tile"), "row"),
    )


def _split_knobs(group: Group, width: int, most: int) -> tuple[Knob, ...]:
    """Parts of a row and their blocks, no more of them than the row has elements for; see `permits`."""
    least = _least_block(group)
    lanes = group.size(group.outer_dims + group.inner_dims)
    splits = tuple(count for count in (_LEAST_SPLITS, 16, 32, 64, 128, 256) if count * least <= width)
    start = min(128 if lanes < 16 else 16, splits[-1])
    blocks = tuple(block for block in _SPLIT_BLOCKS if least <= block <= width // splits[0])
    return (Knob("BLOCK", blocks, max(least, min(most, width // start))), Knob("SPLITS", splits, start))


def _least_block(group: Group) -> int:
    return _SPLIT_BLOCKS[0] if group.size(group.inner_dims) > 1 else 64


def permits(group: Group, algorithm: str, chosen: tuple[tuple[str, int | str], ...]) -> bool:
    """Whether the values of knobs go together: the parts of a split row hold at least a block each, or the last ones were empty."""
    if algorithm != "split":
        return True
    values = knob_values(group, algorithm, chosen)
    return int(values["SPLITS"]) * int(values["BLOCK"]) <= power_of_two(group.size(group.reduced))


def _one_pass_knobs(width: int, inner: bool) -> tuple[Knob, ...]:
    most = max(1, REGISTER_ELEMENTS // 2 // width)
    rows = tuple(count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count <= most) or (1,)
    wanted = min(rows[-1], max(16, 4096 // width) if inner else max(1, 1024 // width))
    start = max(count for count in rows if count <= wanted)
    tile = width * start
    warps = min(32, max(1, power_of_two(tile) // 512))
    return (Knob("ROWS", rows, start), Knob("num_warps", (1, 2, 4, 8, 16, 32), warps))


def _product_knobs(group: Group, algorithm: str) -> tuple[Knob, ...]:
    rows, columns = group.frame[-2][0], group.frame[-1][0]
    if group.product is not None and not group.product.batched:
        rows = group.size(tuple(range(len(group.frame) - 1)))
    # float32 products start small: without tensor cores a large tile only costs registers.
    tile, warps = (64, 4) if group.operand == "float32" else (128, 8)
    depth = min(128, max(16, power_of_two(group.depth)))
    found = [
        Knob("BLOCK_M", (16, 32, 64, 128, 256), min(tile, max(16, power_of_two(rows)))),
        Knob("BLOCK_N", (16, 32, 64, 128, 256), min(tile, max(16, power_of_two(columns)))),
        Knob("BLOCK_K", tuple(size for size in (16, 32, 64, 128) if size <= depth), min(32, depth)),
        Knob("num_warps", (2, 4, 8), warps),
        Knob("num_stages", (1, 2, 3, 4, 5), 3 if group.depth > depth else 1),
        Knob("accumulate", ("chained", "separate"), "chained"),
    ]
    if algorithm == "tiled":
        found.append(Knob("order", ("rows_first", "columns_first"), "rows_first"))
    if algorithm in {"grouped", "persistent"}:
        found.append(Knob("GROUP_M", (2, 4, 8, 16), 8))
    if algorithm == "split_k":
        found.append(Knob("SPLIT_K", (2, 4, 8, 16), 4))
    if algorithm == "persistent":
        found.append(Knob("PROGRAMS", (66, 132, 264, 528), 132))
    return tuple(found)


def functions_spelled(groups: tuple[Group, ...]) -> tuple[str, ...]:
    """Functions of several spellings that kernels of these groups use, in a fixed order."""
    used: set[str] = set()
    for group in groups:
        for node in group.nodes:
            if node.kind == "map":
                used.update(spelled_functions(node.function))
            if node.kind == "reduce" and node.function in {"softmax", "logsumexp"}:
                used.add("exp")
    return tuple(sorted(used))


def knob_values(group: Group, algorithm: str, chosen: tuple[tuple[str, int | str], ...]) -> Mapping[str, int | str]:
    """Values of all knobs: what a recipe chose, or else where they start."""
    return {**dict(defaults(group, algorithm)), **dict(chosen)}
