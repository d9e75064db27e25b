"""Runs compiled-for-a-GPU kernels on CPU memory, program by program."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.jit import JITFunction, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from .access import AccessBuilder, LaunchState, Poison
from .compiling import Compiled, Specialisation
from .counting import OperationCounter
from .coverage import Stored, StoreTally, random_programs
from .memory import Allocations, Memory, RaceRecorder, Region
from .model import NotInterpretable, Traffic, Violation
from .numerics import held_dtype
from .pace import Pace
from .patching import bind, interpreted_language, scalar
from .reductions import BlockReductions
from .rewriting import Language, definition_line, rewrite, source_file
from .shortcuts import InterpreterSemantic, add_shortcuts
from .targets import Target
from .traffic import (
    BudgetExceeded,
    Grid,
    LaunchTally,
    ProgramTally,
    clustered_programs,
    sample_iterations,
    sample_programs,
    unknown_traffic,
    unravel,
)
from .values import scalar_tensor


def _plain_int(bound: Any) -> int:
    return int(bound.value if isinstance(bound, tl.constexpr) else bound)


class Interpreter:
    """Interprets launches; one per session. `clock` bounds the seconds that sampling one launch may take."""

    def __init__(
        self,
        target: Target,
        order_seed: int,
        allocations: Allocations | None,
        report: Callable[[Violation], None],
        sampling_budget_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._order_seed = order_seed
        self._allocations = allocations
        self._report = report
        self._poison = Poison(order_seed)
        self._budget_s = sampling_budget_s
        self._clock = clock
        self._deadline: float | None = None
        self._pace = Pace()
        self._builder = AccessBuilder()
        self._semantic = InterpreterSemantic(self._builder)
        self._namespace = Language(self._semantic, self._loop).namespace()
        # By identity: hashing a JITFunction reads the language, which is replaced while this is used.
        self._functions: dict[int, tuple[JITFunction, Callable[..., Any]]] = {}
        self._patches = interpreted_language(self._semantic, self._loop, BlockReductions(lambda: self._builder.counter))
        add_shortcuts(self._patches)
        self._patches.add(JITFunction, "__call__", lambda function, *args, **kwargs: self._function(function)(*args, **kwargs))

    def run_all(self, specialisation: Specialisation, compiled: Compiled, grid: Grid, pace: Pace) -> None:
        """Interpret every program, in shuffled order unless one may wait for another; raises NotInterpretable, TooSlow by `pace`.

        Programs that write different values to one element race in any order, unless both may hold a lock.
        """
        state, arguments = self._prepare(specialisation)
        state.races = RaceRecorder(uses_atomics=compiled.uses_atomics, may_wait=compiled.may_wait)
        numbers = np.arange(math.prod(grid))
        if not compiled.may_wait:
            np.random.default_rng(self._order_seed).shuffle(numbers)
        function = specialisation.function

        def programs() -> None:
            kernel, given = self._function(function), arguments()
            for number in numbers.tolist():
                state.program = number
                self._builder.grid_idx = unravel(number, grid)
                kernel(**given)
                pace.program_ended()

        self._pace = pace
        pace.begin(function.fn.__name__, definition_line(function), numbers.size, bounded=not compiled.loops_freely)
        try:
            self._guarded(specialisation, state, grid, programs)
        finally:
            pace.end()

    def run_sample(self, specialisation: Specialisation, compiled: Compiled, grid: Grid, max_programs: int) -> Traffic:
        """Interpret a few programs without writing, and extrapolate; `sampled_programs` is 0 where that took too long."""
        state, arguments = self._prepare(specialisation)
        state.writes = False
        total = LaunchTally()

        def programs() -> None:
            kernel, given = self._function(specialisation.function), arguments()

            def tallied(index: Grid) -> ProgramTally:
                counter = OperationCounter()
                tally = ProgramTally(counter, self._check_budget)
                state.listener, self._builder.counter = tally, counter
                self._builder.grid_idx = index
                kernel(**given)
                return tally

            spread = [(tallied(sampled.index), sampled.weight) for sampled in sample_programs(grid, max_programs)]
            idle = [tally.idle for tally, _weight in spread]
            if any(idle) and not all(idle):
                for sampled in clustered_programs(grid):
                    total.add(tallied(sampled.index), sampled.weight)
                return
            for tally, weight in spread:
                total.add(tally, weight)

        count = math.prod(grid)
        self._deadline = self._clock() + self._budget_s
        try:
            self._guarded(specialisation, state, grid, programs)
        except BudgetExceeded:
            return unknown_traffic(count)
        finally:
            self._deadline, self._builder.counter = None, None
        resources = compiled.resources
        threads = resources.num_warps * self._target.warp_size
        resident = self._target.resident_programs(threads, resources.registers, resources.shared_bytes)
        return total.traffic(count, resident, self._target.l2_capacity_bytes)

    def run_stores(self, specialisation: Specialisation, grid: Grid, max_programs: int) -> list[Stored] | None:
        """Interpret random programs without writing, for what they would store; None where that took too long."""
        state, arguments = self._prepare(specialisation)
        state.writes = False
        counter = OperationCounter()
        tally = StoreTally(lambda: counter.weight, self._check_budget)
        random = np.random.default_rng(self._order_seed)

        def programs() -> None:
            kernel, given = self._function(specialisation.function), arguments()
            state.listener, self._builder.counter = tally, counter
            for index in random_programs(grid, max_programs, random):
                tally.begin()
                self._builder.grid_idx = index
                kernel(**given)

        self._deadline = self._clock() + self._budget_s
        try:
            self._guarded(specialisation, state, grid, programs)
        except BudgetExceeded:
            return None
        finally:
            self._deadline, self._builder.counter = None, None
        return tally.stored(math.prod(grid))

    def _guarded(self, specialisation: Specialisation, state: LaunchState, grid: Grid, programs: Callable[[], None]) -> None:
        function = specialisation.function
        self._builder.state, self._builder.options = state, specialisation.options
        self._builder.grid_dim = grid
        try:
            with self._patches, np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                programs()
        except (MemoryError, NotInterpretable):
            raise
        except Exception as error:
            line = _line_of(error, state.filename) or definition_line(function)
            raise NotInterpretable(function.fn.__name__, line, f"{type(error).__name__}: {error}") from error

    def _prepare(self, specialisation: Specialisation) -> tuple[LaunchState, Callable[[], dict[str, Any]]]:
        function = specialisation.function
        memory = Memory(self._allocations)
        state = LaunchState(function.fn.__name__, source_file(function), memory, self._poison, self._report)
        regions = {name: self._regions(name, value, memory) for name, value in specialisation.arguments.items()}

        def arguments() -> dict[str, Any]:
            types = specialisation.signature
            return {name: self._argument(types[name], value, regions[name]) for name, value in specialisation.arguments.items()}

        return state, arguments

    def _regions(self, name: str, value: Any, memory: Memory) -> Any:
        if isinstance(value, TensorDescriptor):
            return self._regions(name, value.base, memory)
        if isinstance(value, tuple):
            return tuple(self._regions(f"{name}[{number}]", item, memory) for number, item in enumerate(value))
        base = getattr(value, "base", value)  # what triton.reinterpret wraps
        if hasattr(base, "untyped_storage"):
            return memory.add_tensor(name, base)
        return memory.add_pointer(name, int(value.data_ptr()), 1) if hasattr(value, "data_ptr") else None

    def _argument(self, kind: Any, value: Any, region: Any) -> Any:
        if isinstance(kind, (tuple, list)):
            items = [self._argument(k, v, r) for k, v, r in zip(kind, value, region, strict=True)]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if kind == "constexpr":
            return value.value if isinstance(value, tl.constexpr) else value
        if isinstance(value, TensorDescriptor):
            return self._descriptor(value, region)
        dtype = tl.str_to_ty(kind, None)
        if dtype.is_ptr():
            return scalar_tensor(value.data_ptr(), dtype, np.uint64, region)
        return scalar_tensor(value, dtype, held_dtype(dtype)) if dtype.name != "bf16" else scalar_tensor(value, dtype, np.float32)

    def _descriptor(self, value: TensorDescriptor, region: Region) -> Any:
        element = tl.str_to_ty(mangle_type(value.base), None).element_ty
        base = scalar_tensor(value.base.data_ptr(), tl.pointer_type(element), np.uint64, region)
        shape = [scalar_tensor(size, tl.int32, np.int32) for size in value.shape]
        strides = [scalar_tensor(stride, tl.int64, np.int64) for stride in value.strides[:-1]] + [tl.constexpr(1)]
        blocks = [tl.constexpr(size) for size in value.block_shape]
        return self._semantic.make_tensor_descriptor(base, shape, strides, blocks, padding_option=value.padding)

    def _function(self, function: JITFunction) -> Callable[..., Any]:
        known = self._functions.get(id(function))
        if known is None:
            known = self._functions[id(function)] = function, rewrite(function, self._namespace, self._adapt)
        return known[1]

    def _adapt(self, value: Any) -> Any:
        return bind(value, self._semantic) if tl.core.is_builtin(value) and callable(value) else value

    def _check_budget(self) -> None:
        if self._deadline is not None and self._clock() > self._deadline:
            raise BudgetExceeded

    def _loop(self, first: Any, second: Any = None, step: Any = None, **_: Any) -> Iterator[tl.tensor]:
        """`range` and `tl.range`; while sampling, long loops run a few iterations that stand for all."""
        bounds = [0, first] if second is None else [first, second]
        bounds += [] if step is None else [step]
        dtype = tl.int64 if any(isinstance(bound, tl.tensor) and bound.dtype.primitive_bitwidth == 64 for bound in bounds) else tl.int32
        numbers = range(*[_plain_int(bound) for bound in bounds])
        counter = self._builder.counter
        if counter is None:
            for number in numbers:
                yield scalar(number, dtype)
                self._pace.iteration_ended()
            return
        outer = counter.weight
        try:
            for position, weight in sample_iterations(len(numbers)):
                self._check_budget()
                counter.weight = outer * weight
                counter.loop_iterations += counter.weight
                yield scalar(numbers[position], dtype)
        finally:
            counter.weight = outer


def _line_of(error: BaseException, filename: str) -> int:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == filename else line
        trace = trace.tb_next
    return line
