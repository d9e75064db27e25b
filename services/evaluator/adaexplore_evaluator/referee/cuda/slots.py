"""Slots of a round: arguments in the runner's memory that the referee writes anew before each round, and remembers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.values import MalformedReplyError, memory_of
from adaexplore_evaluator.runner.wire import Tree, Value, encode_types, map_tensors, tensors_of

# A round of more takes longer to write than to run, and tells little more.
_MOST_SLOTS = 2048
# Every tensor of every slot is an entry of one answer, whose size is limited.
_MOST_TENSORS = 24_000
_LEAST_SLOTS = 2
# As many where one of them takes less than a round should; of longer calls each is as good as a round.
_FEW_SLOTS = 8
_MEMORY_SHARE = 0.3
_MOST_BYTES = 48 * 2**30
# Each element is multiplied by a factor of its own of this range: none leaves its sign, its zeros, or an interval around zero.
_LEAST_FACTOR = 0.75
WINDOWS = 4096
# Larger tensors take the same factors again, from windows of a stride's distance.
_TABLE = 2**24
_STRIDE = 1021
# Tensors of no more elements are written together.
TOGETHER = 2**22
# What slots scale; integers, booleans and complex numbers stay as they were drawn.
SCALED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def slot_count(call_s: float, round_s: float, slot_bytes: int, free_bytes: int, slot_tensors: int = 1) -> int:
    """Slots of a long round: enough for its length, as many as memory and answers allow, and an even number.

    Args:
        call_s: Seconds of a call.
        round_s: Seconds that a long round should take.
        slot_bytes: Memory of a slot with its outputs.
        free_bytes: Memory of the GPU that is free.
        slot_tensors: Most tensors that one answer names for a slot.

    """
    wanted = 2 * round(round_s / max(call_s, 1e-9) / 2)
    allowed = int(min(_MEMORY_SHARE * free_bytes, _MOST_BYTES) // max(slot_bytes, 1))
    told = _MOST_TENSORS // max(slot_tensors, 1)
    few = _FEW_SLOTS if call_s < round_s else _LEAST_SLOTS
    return max(_LEAST_SLOTS, min(max(wanted, few), _MOST_SLOTS, allowed, told) // 2 * 2)


class Slots:
    """Slots of one runner; what each holds follows from the referee's own record, never from the runner's memory.

    Args:
        runner: The runner.
        arguments: Arguments of one call, a list or `args` and `kwargs`; a slot holds the same, each float times a factor of its own.
        draw: The referee's own random numbers.
        even: Scale all elements of a tensor by one factor. Factors of their own take what some tasks ask of their inputs, a matrix to be
            positive definite say; one factor leaves that.
        others: Further draws of the arguments, of the same form; a slot holds one of all draws. No factor varies integers.

    """

    def __init__(self, runner: CudaRunner, arguments: Value, draw: random.Random, even: bool = False, others: Sequence[Value] = ()) -> None:
        self._runner = runner
        self._base = arguments
        self._draw = draw
        self._sources = [memory_of(tensor) for tensor in tensors_of(arguments)]
        self._drawn = [self._sources, *([memory_of(tensor) for tensor in tensors_of(other)] for other in others)]
        self._factors = [_factors(source) for source in self._sources]
        self._even = even
        self._views: list[list[torch.Tensor]] = []
        self._windows: list[list[int]] = [[] for _ in self._sources]
        self._chosen: list[int] = []

    @property
    def bytes(self) -> int:
        """Size of one slot."""
        return sum(source.numel() * source.element_size() for source in self._sources)

    @property
    def tensors(self) -> int:
        """Tensors of one slot."""
        return len(self._sources)

    def allocate(self, count: int) -> Tree:
        """Let the runner allocate slots, fill them, and return the tree that names them.

        Raises:
            MalformedReplyError: The runner allocated something else, or the same memory twice.

        """
        tensors = tensors_of(self._base)
        self._views = []
        dense = map_tensors(self._base, lambda item: torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device="meta"))
        reply = self._runner.allocate(encode_types([dense] * count))
        tree = reply.get("tree")
        slots = self._runner.look(tree)
        if not isinstance(tree, dict) or not isinstance(slots, list) or len(slots) != count:
            raise MalformedReplyError("the runner allocated something else")
        found = [tensors_of(slot) for slot in slots]
        if any(not same_types(views, tensors) for views in found):
            raise MalformedReplyError("the runner allocated tensors of another form")
        self._views = [[memory_of(view) for view in views] for views in found]
        _demand_disjoint([view for views in self._views for view in views])
        self._windows = [[0] * count for _ in tensors]
        self._chosen = [0] * count
        self.fill(count)
        return tree

    def fill(self, count: int) -> None:
        """Write new values to the first `count` slots."""
        if len(self._drawn) > 1:
            self._chosen[:count] = [self._draw.randrange(len(self._drawn)) for _ in range(count)]
        for number, source in enumerate(self._sources):
            self._windows[number][:count] = drawn_below(self._draw, WINDOWS, count)
            if self._even or source.numel() > min(TOGETHER, _TABLE):
                for at in range(count):
                    self.write(number, self._chosen[at], self._windows[number][at], self._views[at][number])
                continue
            # Thousands of small tensors take far longer one by one than all at once.
            targets, factors = [views[number] for views in self._views[:count]], self._factors[number]
            torch._foreach_copy_(targets, [self._drawn[chosen][number] for chosen in self._chosen[:count]])
            if factors is not None:
                torch._foreach_mul_(targets, [factors[begin : begin + source.numel()] for begin in self._windows[number][:count]])

    def given(self, at: int) -> Given:
        """What a slot was given; it stays known when the slot is filled again."""
        return Given(self, self._chosen[at], [windows[at] for windows in self._windows])

    def copied(self, at: int, places: Collection[int]) -> list[torch.Tensor]:
        """Copies of some tensors of a slot as they are now."""
        likes = tensors_of(self._base)
        return [self._views[at][place].clone().as_strided(likes[place].shape, likes[place].stride()) for place in places]

    def untouched(self, at: int, but: Collection[int] = ()) -> bool:
        """True if a slot still holds, bit for bit, what it was given, `but` for tensors of these numbers."""
        for number, view in enumerate(self._views[at]):
            if number in but:
                continue
            given = torch.empty_like(view)
            self.write(number, self._chosen[at], self._windows[number][at], given)
            if not torch.equal(given.view(torch.uint8), view.view(torch.uint8)):
                return False
        return True

    def release(self) -> None:
        """Drop the views; the runner's memory is no longer touched."""
        self._views = []

    def renewed(self, chosen: int, windows: list[int]) -> Value:
        """The arguments of a draw, whose tensors took factors from these windows, made anew."""
        numbers = itertools.count()

        def tensor(like: torch.Tensor) -> torch.Tensor:
            number = next(numbers)
            made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
            self.write(number, chosen, windows[number], memory_of(made))
            return made

        return map_tensors(self._base, tensor)

    def write(self, number: int, chosen: int, window: int, target: torch.Tensor) -> None:
        """Write a tensor as a slot gets it that holds a certain draw, and whose factors begin at a window."""
        source, factors = self._drawn[chosen][number], self._factors[number]
        if self._even and factors is not None:
            torch.mul(source, factors[window], out=target)
        else:
            _write_scaled(target, source, factors, window)


@dataclass(frozen=True)
class Given:
    """What one slot was given at one time."""

    slots: Slots
    chosen: int
    windows: list[int]

    def arguments(self) -> Value:
        """The arguments, made anew."""
        return self.slots.renewed(self.chosen, self.windows)


def drawn_below(draw: random.Random, bound: int, count: int) -> list[int]:
    """So many random numbers below a bound, a power of two of 65,536 at most."""
    raw = bytearray(draw.randbytes(2 * count))
    return (torch.frombuffer(raw, dtype=torch.int16).int() & (bound - 1)).tolist() if count else []


def drawn(arguments: Value, draw: random.Random) -> Value:
    """Arguments such as a slot gets, each element times a factor of its own, in memory of this process."""
    sources = [memory_of(tensor) for tensor in tensors_of(arguments)]
    written = iter(sources)

    def scaled(like: torch.Tensor) -> torch.Tensor:
        source = next(written)
        made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
        _write_scaled(memory_of(made), source, _factors(source), draw.randrange(WINDOWS))
        return made

    return map_tensors(arguments, scaled)


def _write_scaled(target: torch.Tensor, source: torch.Tensor, factors: torch.Tensor | None, window: int) -> None:
    """Every element times a factor of its own, from a window of the table."""
    if factors is None:
        target.copy_(source)
        return
    for first in range(0, source.numel(), _TABLE):
        part = source[first : first + _TABLE]
        begin = (window + first // _TABLE * _STRIDE) % WINDOWS
        torch.mul(part, factors[begin : begin + part.numel()], out=target[first : first + _TABLE])


def _factors(source: torch.Tensor) -> torch.Tensor | None:
    """Random factors, of which every slot takes a window of its own; None for what is not scaled."""
    if source.dtype not in SCALED:
        return None
    wide = torch.rand(min(source.numel(), _TABLE) + WINDOWS, device=source.device, dtype=torch.float32)
    return wide.mul_(1.0 - _LEAST_FACTOR).add_(_LEAST_FACTOR).to(source.dtype)


def same_types(found: list[torch.Tensor], asked: list[torch.Tensor]) -> bool:
    """True if tensors agree in shapes, strides and dtypes."""
    return len(found) == len(asked) and all(
        left.shape == right.shape and left.stride() == right.stride() and left.dtype == right.dtype
        for left, right in zip(found, asked, strict=True)
    )


def _demand_disjoint(views: list[torch.Tensor]) -> None:
    ranges = sorted((view.data_ptr(), view.numel() * view.element_size()) for view in views if view.numel())
    for (start, size), (following, _size) in itertools.pairwise(ranges):
        if start + size > following:
            raise MalformedReplyError("the runner gave the same memory to two slots")
