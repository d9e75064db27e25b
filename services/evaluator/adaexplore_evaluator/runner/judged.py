"""The reduced shape at which numbers are judged: which constants of the task shrink, and to what.

The rule. Only sizes shrink: constants whose change alters the shape of an input, of the state or of an output, while the reference calls
the very same operators. Small constants (kernel sizes, strides, heads, groups) stay. Of the constants that the largest tensor depends on,
leading dimensions (batch, rows) shrink first, then inner ones, then last, reduced and parameter dimensions, each no further than needed;
sizes that differ at full shape differ here. A size keeps the divisibility of the original: it is 3·2^k times what the original's own
power of two allows, a multiple of 16 where a size above 64 was one, and never a power of two of its own but for a last step of 16 rows.
What holds for every multiple of a block at full shape holds there too, while a mask that a row of no power of two needs still shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from adaexplore_evaluator.runner.constants import Constant, Place

LEADING, INNER, CORE = 0, 1, 2
MAX_TRIALS = 120
_SMALL = 16
_FLOORS: tuple[tuple[int, int, int], ...] = ((16, 48, 96), (16, 16, 48), (3, 6, 16), (2, 3, 3))
_BATCH_FLOOR = 3


@dataclass(frozen=True)
class Measured:
    """Shapes and operators of a task at one choice of constants; shapes come in the order inputs, state, outputs."""

    inputs: tuple[tuple[int, ...], ...]
    state: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    operators: tuple[str, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """All shapes in order."""
        return self.inputs + self.state + self.outputs

    def largest(self) -> int:
        """Index of the tensor with the most elements."""
        sizes = [_elements(shape) for shape in self.shapes]
        return sizes.index(max(sizes))

    def largest_elements(self) -> int:
        """Elements of the largest tensor."""
        return max((_elements(shape) for shape in self.shapes), default=0)


Measure = Callable[[dict[Place, int]], Measured | None]


@dataclass(frozen=True)
class Size:
    """Constants that shrink together, what they are to the task, and which of its tensors depend on them."""

    members: tuple[Constant, ...]
    category: int
    pure_batch: bool
    tensors: frozenset[int]

    @property
    def value(self) -> int:
        """The size at full shape."""
        return self.members[0].value


def reduce_shape(constants: Sequence[Constant], measure: Measure, max_elements: int, tie_equal: bool) -> dict[Place, int]:
    """Values for constants so that every tensor has at most `max_elements` elements, or as near to it as sizes may go.

    Empty if the task is small already or nothing can shrink. `tie_equal` lets all constants of one value shrink together.
    """
    full = measure({})
    if full is None or full.largest_elements() <= max_elements:
        return {}
    trials = _Trials(measure, full)
    sizes = [size for group in _groups(constants, tie_equal) if (size := trials.classify(group)) is not None]
    return _Shrinking(sizes, trials, max_elements).run()


def ladder(value: int) -> list[int]:
    """Smaller sizes that may stand for `value`, in falling order, down to 2."""
    targets = sorted({3 << power for power in range(40)} | {16, 2}, reverse=True)
    steps = [_keep_divisibility(value, target) for target in targets if target < value]
    if value > 64 and value % 16 == 0:
        steps = [step for step in steps if step % 16 == 0 or step < _SMALL]
    return sorted({step for step in steps if 1 < step < value}, reverse=True)


class _Trials:
    def __init__(self, measure: Measure, full: Measured) -> None:
        self._measure = measure
        self._remaining = MAX_TRIALS
        self.full = full

    def attempt(self, values: dict[Place, int]) -> Measured | None:
        """The measurement if the task still runs the same operators, else None."""
        if self._remaining == 0:
            return None
        self._remaining -= 1
        measured = self._measure(values)
        return measured if measured is not None and measured.operators == self.full.operators else None

    def classify(self, group: tuple[Constant, ...]) -> Size | None:
        """What a group of constants is to the task; None if it is no size, or a small one that is no batch."""
        for step in ladder(group[0].value)[:3]:
            changed = self.attempt({constant.place: step for constant in group})
            if changed is not None:
                return _size(group, self.full, changed)
        return None


class _Shrinking:
    def __init__(self, sizes: Sequence[Size], trials: _Trials, max_elements: int) -> None:
        self._sizes = list(sizes)
        self._trials = trials
        self._max_elements = max_elements
        self._current = {size: size.value for size in sizes}
        self._measured = trials.full

    def run(self) -> dict[Place, int]:
        for floors in _FLOORS:
            stuck: set[Size] = set()
            while self._measured.largest_elements() > self._max_elements:
                size = self._next(floors, stuck)
                if size is None:
                    break
                if not self._step(size, floors):
                    stuck.add(size)
        self._separate()
        return self._values(size for size in self._sizes if self._current[size] != size.value)

    def _separate(self) -> None:
        """Let sizes that differ at full shape differ here too, so that a stride of the wrong extent shows."""
        shrunk = [size for size in self._sizes if self._current[size] != size.value]
        taken: dict[int, int] = {}
        for size in sorted(shrunk, key=lambda size: (-size.value, -size.category)):
            while taken.get(self._current[size], size.value) != size.value:
                if not self._step(size, (_SMALL, _SMALL, _SMALL)):
                    break
            taken.setdefault(self._current[size], size.value)

    def _next(self, floors: tuple[int, int, int], stuck: set[Size]) -> Size | None:
        largest = self._measured.largest()
        free = [
            size for size in self._sizes if largest in size.tensors and size not in stuck and self._current[size] > _floor(size, floors)
        ]
        return min(free, key=lambda size: (size.category, -self._current[size]), default=None)

    def _step(self, size: Size, floors: tuple[int, int, int]) -> bool:
        floor = _floor(size, floors)
        steps = [step for step in ladder(size.value) if floor <= step < self._current[size]]
        for step in steps[:3]:
            before = self._current[size]
            self._current[size] = step
            measured = self._trials.attempt(self._values(self._sizes))
            if measured is not None:
                self._measured = measured
                return True
            self._current[size] = before
        return False

    def _values(self, sizes: Iterable[Size]) -> dict[Place, int]:
        return {constant.place: self._current[size] for size in sizes for constant in size.members}


def _size(group: tuple[Constant, ...], full: Measured, changed: Measured) -> Size | None:
    pairs = list(zip(full.shapes, changed.shapes, strict=True)) if len(full.shapes) == len(changed.shapes) else []
    tensors = frozenset(index for index, (before, after) in enumerate(pairs) if before != after)
    if not tensors:
        return None
    category, rank = _category(full, changed)
    if group[0].value <= _SMALL and category != LEADING:
        return None
    return Size(group, category, category == LEADING and rank > 2, tensors)


def _category(full: Measured, changed: Measured) -> tuple[int, int]:
    """Category of a size, and the largest rank of an input that depends on it."""
    moved = [(before, after) for before, after in zip(full.inputs, changed.inputs, strict=True) if before != after]
    rank = max((len(before) for before, _ in moved), default=0)
    reduced = bool(moved) and full.outputs == changed.outputs and all(_elements(shape) > 1 for shape in full.outputs)
    if not moved or full.state != changed.state or reduced or any(_last_moved(*pair) for pair in moved):
        return CORE, rank
    leading_only = all(before[1:] == after[1:] for before, after in moved)
    return (LEADING if leading_only else INNER), rank


def _last_moved(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    return len(before) > 1 and len(before) == len(after) and before[-1] != after[-1]


def _groups(constants: Sequence[Constant], tie_equal: bool) -> list[tuple[Constant, ...]]:
    anonymous = {constant.value for constant in constants if not constant.named}
    groups: dict[object, list[Constant]] = {}
    for constant in constants:
        tied = tie_equal or constant.value in anonymous
        groups.setdefault(constant.value if tied else constant.place, []).append(constant)
    return [tuple(group) for group in groups.values()]


def _floor(size: Size, floors: tuple[int, int, int]) -> int:
    return min(_BATCH_FLOOR, floors[LEADING]) if size.pure_batch else floors[size.category]


def _keep_divisibility(value: int, target: int) -> int:
    unit = min(value & -value, target & -target)
    quotient = target // unit
    return unit * (quotient if quotient % 2 or quotient == 1 else quotient - 1)


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product
