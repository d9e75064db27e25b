"""Which products stay with the vendor's library, and what a track lets stay in torch at all."""

from __future__ import annotations

import itertools

from adaexplore_generator.templates.ir import HostCall, Program, UnsupportedError
from adaexplore_generator.templates.scheduling import VIEWS

Chosen = tuple[int, ...]
"""Numbers of products that stay with the library, in the order of the task's graph."""

THIN_DEPTH = 32
"""Up to this inner dimension a float32 product is bound by what it writes: fused with what follows, a kernel beats the library."""

_MOST_CHOSEN_APART = 8
_SLOWER_IN_TRITON = frozenset({"fp32", "tf32"})
_LIBRARY_CALLS = frozenset(
    [
        "linear",
        "mm",
        "matmul",
        "bmm",
        "addmm",
        "baddbmm",
        "addbmm",
        "mv",
        "addmv",
        "dot",
        "vdot",
        "inner",
        "einsum",
        "tensordot",
        "bilinear",
        "kron",
        "convolution",
        "_convolution",
        *(f"conv{transposed}{rank}d" for transposed in ("", "_transpose") for rank in (1, 2, 3)),
        "scaled_dot_product_attention",
    ]
)


def choices(program: Program, track: str) -> tuple[Chosen, ...]:
    """Sets of products that may be left to the library, the empty one left out: all, those that are not thin, all but one, or one."""
    every = tuple(range(len(program.product_depths)))
    if track != "any" or not every:
        return ()
    found = [every, deep(program)]
    if len(every) <= _MOST_CHOSEN_APART:
        found += [*itertools.combinations(every, len(every) - 1), *itertools.combinations(every, 1)]
    return tuple(dict.fromkeys(chosen for chosen in found if chosen))


def deep(program: Program) -> Chosen:
    """The products that are not thin."""
    return tuple(number for number, depth in enumerate(program.product_depths) if depth > THIN_DEPTH)


def preferred(program: Program, precision: str) -> Chosen:
    """Products that the library is known to compute faster than a Triton kernel does; empty if there is none."""
    return deep(program) if precision in _SLOWER_IN_TRITON else ()


def refuse_forbidden(program: Program, track: str) -> None:
    """UnsupportedError if a track forbids a call that stays in torch because no template writes it."""
    for step in program.steps:
        if isinstance(step, HostCall) and _forbidden(step.operator.split(".")[1], track):
            raise UnsupportedError(f"{step.operator} has no template and the track {track} forbids it")


def _forbidden(base: str, track: str) -> bool:
    if track == "triton_only":
        return base not in VIEWS
    return track == "no_vendor_library" and base in _LIBRARY_CALLS
