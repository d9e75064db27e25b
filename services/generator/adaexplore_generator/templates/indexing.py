"""Where an element of a tensor lies, in terms of the indices that a kernel runs over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adaexplore_generator.templates.frames import Mapping_
from adaexplore_generator.templates.ir import ONE, Shape

INT32_ELEMENTS = 2**31 - 2**20
"""Tensors with more elements are indexed in 64 bits; the margin holds the last block of a launch."""


@dataclass(frozen=True)
class Run:
    """Adjacent frame dims that one index of the kernel runs over, flattened; `mask` guards the index, empty if it cannot leave."""

    dims: tuple[int, ...]
    index: str
    mask: str = ""


@dataclass
class Sizes:
    """Products of frame extents that the kernel takes as arguments, by the dims they are products of."""

    frame: Shape
    preset: dict[tuple[int, ...], str] = field(default_factory=dict)
    used: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def name(self, dims: Sequence[int]) -> str:
        """Argument that holds a product of extents; `1` if it is always one."""
        wide = tuple(dim for dim in dims if self.frame[dim] != ONE)
        if not wide:
            return "1"
        found = self.preset.get(wide) or f"size_{'_'.join(map(str, wide))}"
        self.used[found] = wide
        return found


def offset(mapping: Mapping_, runs: Sequence[Run], sizes: Sizes) -> str:
    """Offset of an element of a contiguous tensor with this mapping; `0` for a tensor of one element."""
    kept = [dim for dim in mapping if dim is not None]
    terms = []
    for run in runs:
        for segment in _segments(run, kept, sizes.frame):
            index = _index(run, segment, sizes)
            stride = sizes.name([dim for dim in kept if dim > segment[-1]])
            terms.append(index if stride == "1" else f"{index} * {stride}")
    return " + ".join(terms) or "0"


def position(dim: int, runs: Sequence[Run], sizes: Sizes) -> str:
    """Index along one frame dim."""
    run = next(run for run in runs if dim in run.dims)
    return _index(run, [dim], sizes)


def guard(mapping: Mapping_ | frozenset[int], runs: Sequence[Run]) -> str:
    """Mask of an access: the guards of all indices that the tensor varies along."""
    return " & ".join(run.mask for run in runs if run.mask and any(dim in run.dims for dim in mapping if dim is not None))


def _segments(run: Run, kept: list[int], frame: Shape) -> list[list[int]]:
    """Runs of kept dims with nothing but extents of one between them."""
    found: list[list[int]] = []
    fresh = True
    for dim in run.dims:
        if dim in kept:
            if fresh:
                found.append([])
            found[-1].append(dim)
            fresh = False
        elif frame[dim] != ONE:
            fresh = True
    return found


def _index(run: Run, segment: list[int], sizes: Sizes) -> str:
    after = sizes.name([dim for dim in run.dims if dim > segment[-1]])
    leading = any(sizes.frame[dim] != ONE for dim in run.dims if dim < segment[0])
    index = run.index if after == "1" else f"{run.index} // {after}"
    if leading:
        index = f"{index} % {sizes.name(segment)}"
    return index if index == run.index else f"({index})"
