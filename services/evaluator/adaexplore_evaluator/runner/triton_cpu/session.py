"""The session: hooks Triton's launches while host code runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as driver_config
from triton.runtime.errors import PTXASError
from triton.runtime.jit import JITFunction

from .compiling import CompileCache, Compiled, Compiler, Specialisation
from .coverage import CoverageBook
from .driver import AbsentGpu
from .execution import Interpreter
from .model import KernelCompileError, Launch, LaunchRefused, Mode, Traffic, Violation
from .pace import Pace
from .patching import PatchSet
from .repeats import Repeats, Sample
from .rewriting import definition_line
from .targets import find_target
from .traffic import Grid, rough_seconds
from .tuning import Tuning, TuningMemory, combined, noting_trials

_GRID_LIMITS = (2**31 - 1, 65_535, 65_535)


class CompiledHandle:
    """What a launch or a warm-up returns: Triton's compiled kernel, with the figures a loaded one has.

    `handle[grid](*all_arguments)` launches again, as with Triton's own.
    """

    def __init__(self, compiled: Compiled, launch: Callable[..., Any], warp_size: int) -> None:
        self._compiled = compiled
        self._launch = launch
        self.n_regs = compiled.resources.registers
        self.n_spills = compiled.resources.spill_bytes // 4
        self.n_max_threads = 1024 // warp_size * warp_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled.kernel, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **_: self._launch(grid, args)

    def _init_handles(self) -> None:
        """Nothing to load."""


class TritonSession:
    """Context manager that turns launches of Triton kernels into compile-and-interpret on CPU memory.

    Args:
        mode: "judge" compiles each specialisation, then interprets every program in shuffled order with checked memory;
            "full" compiles, then interprets a few programs to count traffic and never writes memory; "compile_only" compiles.
        target: name of the target, for example "sm_90" (see `TARGETS`).
        order_seed: seeds the order of programs and the values that masked-off lanes read.
        precision: the task's class; kept for messages, the numbers follow the kernel's own dtypes and `input_precision`.
        allocations: yields `(address, bytes, name)` of live allocations, asked only for pointers of unknown origin.
        max_sampled_programs: programs interpreted per launch in full mode.
        store_programs: random programs interpreted per launch in full mode for what they store, 0 for none; `order_seed` draws them.
        progress: called with (phase, kernel name), phase "compile", "tune" or "check", before each; the process's owner
            enforces deadlines per phase by it, since a compilation cannot be stopped from within.
        compile_cache: shares compiled kernels between sessions of one process.
        require_cuda: refuse tensors whose `is_cuda` is false with the ValueError a GPU would raise.
        tuning_memory: shares the choices of autotuners between sessions of one process.
        configuration: which configuration autotuned kernels run, as `JudgedChoices.index`; not for the full shape.
        interpreting_s: seconds that all launches of the session may take to interpret in judge mode; TooSlow beyond.
        tuning_s: the same of launches that an autotuner tries.
        at_full_shape: whether this is the pass at full shape, whose choices come first elsewhere; None: in full mode.

    The first call of an autotuned kernel runs every configuration once on the caller's memory, like the real tuner, then the chosen one:
    at full shape the one with the best rough estimate, otherwise the one that `configuration` names among those that ran, where what was
    chosen at full shape comes first.

    Attributes:
        launches: every launch so far, in order.
        coverage: how much of what they may write the launches in full mode write.
        violations: what no GPU reports: accesses out of bounds and races (the first of each kind per kernel, line and argument).

    """

    def __init__(
        self,
        *,
        mode: Mode,
        target: str,
        order_seed: int = 0,
        precision: str = "fp32",
        allocations: Callable[[], Iterable[tuple[int, int, str]]] | None = None,
        max_sampled_programs: int = 3,
        store_programs: int = 0,
        progress: Callable[[str, str], None] | None = None,
        compile_cache: CompileCache | None = None,
        require_cuda: bool = False,
        tuning_memory: TuningMemory | None = None,
        configuration: int = 0,
        at_full_shape: bool | None = None,
        interpreting_s: float = math.inf,
        tuning_s: float = math.inf,
    ) -> None:
        self.launches: list[Launch] = []
        self.violations: list[Violation] = []
        self.coverage = CoverageBook()
        self.precision = precision
        self._mode = mode
        self._target = find_target(target)
        self._max_sampled = max_sampled_programs
        self._store_programs = store_programs
        self._progress = progress or (lambda phase, kernel: None)
        self._require_cuda = require_cuda
        self._compiler = Compiler(self._target, compile_cache or CompileCache())
        self._interpreter = Interpreter(self._target, order_seed, allocations, self._add_violation)
        self._pace, self._tuning_pace = Pace(interpreting_s), Pace(tuning_s)
        self._repeats = Repeats(order_seed)
        self._tuning: list[float] | None = None
        self._memory = tuning_memory or TuningMemory()
        self._configuration = configuration
        self._at_full_shape = mode == "full" if at_full_shape is None else at_full_shape
        self._tuners: dict[Autotuner, str] = {}
        self._hooks = self._make_hooks()

    def __enter__(self) -> TritonSession:
        self._hooks.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.__exit__(kind, error, trace)

    def _make_hooks(self) -> PatchSet:
        tune = Autotuner.run
        hooks = PatchSet()
        # A plain function binds the kernel as its first argument, a bound method would not.
        hooks.add(JITFunction, "run", lambda function, *args, **kwargs: self._run(function, *args, **kwargs))  # noqa: PLW0108
        hooks.add(Autotuner, "run", lambda tuner, *args, **kwargs: self._autotune(tune, tuner, args, kwargs))
        hooks.add(driver_config, "_active", AbsentGpu(self._target, self._benchmark))
        return hooks

    def _add_violation(self, violation: Violation) -> None:
        if violation not in self.violations:
            self.violations.append(violation)

    # Launching.

    def _run(self, function: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        for hook in function.pre_run_hooks:
            hook(*args, **kwargs)
        specialisation = self._compiler.specialise(function, args, kwargs)
        compiled = self._compile(specialisation)
        handle = CompiledHandle(compiled, lambda grid, values: self._relaunch(specialisation, grid, values), self._target.warp_size)
        if not warmup:
            self._launch(specialisation, compiled, grid)
        return handle

    def _compile(self, specialisation: Specialisation) -> Compiled:
        if not self._compiler.known(specialisation):
            self._progress("compile", specialisation.function.fn.__name__)
        try:
            return self._compiler.compile(specialisation)
        except KernelCompileError as error:
            # The tuner passes over configurations that fail in these two ways.
            if self._tuning is not None and isinstance(error.__cause__, (CompileTimeAssertionFailure, PTXASError)):
                raise error.__cause__ from None
            raise

    def _relaunch(self, specialisation: Specialisation, grid: Any, values: Sequence[Any]) -> Any:
        function = specialisation.function
        options = {name: getattr(specialisation.options, name) for name in ("num_warps", "num_stages", "num_ctas")}
        names = list(function.arg_names)
        given = dict(zip(names, values, strict=False))
        known = {name: value for name, value in specialisation.constexprs.items() if name not in given}
        return self._run(function, grid=grid, warmup=False, **given, **known, **options)

    def _launch(self, specialisation: Specialisation, compiled: Compiled, grid: Any) -> None:
        function = specialisation.function
        self._check_devices(specialisation)
        shape = tuple(operator.index(size) for size in (grid(specialisation.arguments) if callable(grid) else grid))
        full: Grid = (*shape, *(1,) * (3 - len(shape)))  # type: ignore[assignment]
        self._check_grid(function, full)
        sample = None
        self._progress("check" if self._tuning is None else "tune", function.fn.__name__)
        if self._mode == "judge" and math.prod(full) > 0:
            self._interpreter.run_all(specialisation, compiled, full, self._pace if self._tuning is None else self._tuning_pace)
        elif self._mode == "full":
            sample = self._sample(specialisation, compiled, full)
        traffic = sample.traffic if sample is not None else None
        if self._tuning is not None:
            self._tuning.append(self._rank(compiled, traffic))
            return
        constexprs = {name: repr(value) for name, value in specialisation.constexprs.items()}
        options = specialisation.options
        line = definition_line(function)
        if sample is not None and sample.has_stored:
            self.coverage.add(function.fn.__name__, line, sample.stored)
        self.launches.append(
            Launch(function.fn.__name__, shape, constexprs, options.num_warps, options.num_stages, line, compiled.resources, traffic)
        )

    def _sample(self, specialisation: Specialisation, compiled: Compiled, grid: Grid) -> Sample:
        has_stored = bool(self._tuning is None and self._store_programs and math.prod(grid) > 0)

        def take() -> Sample:
            traffic = self._interpreter.run_sample(specialisation, compiled, grid, self._max_sampled)
            stored = self._interpreter.run_stores(specialisation, grid, self._store_programs) if has_stored else None
            return Sample(traffic, stored, has_stored)

        return take() if self._tuning is not None else self._repeats.sample(specialisation, grid, take)

    def _rank(self, compiled: Compiled, traffic: Traffic | None) -> float:
        if traffic is None or traffic.sampled_programs == 0:
            return math.inf
        resources = compiled.resources
        threads = resources.num_warps * self._target.warp_size
        resident = self._target.resident_programs(threads, resources.registers, resources.shared_bytes)
        return rough_seconds(traffic, self._target, resident)

    def _check_devices(self, specialisation: Specialisation) -> None:
        if not self._require_cuda:
            return
        for number, value in enumerate(specialisation.arguments.values()):
            if hasattr(value, "data_ptr") and not getattr(value, "is_cuda", True):
                raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)")

    def _check_grid(self, function: JITFunction, grid: Grid) -> None:
        name, line = function.fn.__name__, definition_line(function)
        for size, limit in zip(grid, _GRID_LIMITS, strict=True):
            if size > limit:
                raise LaunchRefused(name, line, "grid", size, limit, "programs along one axis")

    # Autotuning.

    def _autotune(self, tune: Callable[..., Any], tuner: Autotuner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        absent = object()
        changed = {"do_bench": self._benchmark, "cache_results": False, **self._choices(tuner)}
        before = {name: tuner.__dict__.get(name, absent) for name in changed}
        tuner.__dict__.update(changed)
        try:
            return tune(tuner, *args, **kwargs)
        finally:
            for name, value in before.items():
                if value is absent:
                    tuner.__dict__.pop(name, None)
                else:
                    tuner.__dict__[name] = value

    def _choices(self, tuner: Autotuner) -> dict[str, Any]:
        """The attributes of a tuner that decide what it chooses: each shape has choices of its own."""
        if self._at_full_shape:
            return {"cache": self._memory.at_full(tuner)}
        choices = self._memory.judged(tuner)
        choices.index = self._configuration
        if len(tuner.configs) > 1:
            self._tuners[tuner] = tuner.base_fn.__name__
        return {"cache": choices, "_bench": noting_trials(tuner._bench, choices)}

    @property
    def tuning(self) -> Tuning:
        """What the tuners that were called know by now."""
        return combined([(name, self._memory.judged(tuner).tuning()) for tuner, name in self._tuners.items()])

    def _benchmark(self, kernel_call: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
        """One run of one configuration; answers its rank where the tuner expects milliseconds."""
        outer, self._tuning = self._tuning, []
        try:
            kernel_call()
            measured = max(self._tuning, default=math.inf)
        finally:
            self._tuning = outer
        # Without an estimate all configurations rank alike and the tuner takes the first.
        return [measured if math.isfinite(measured) else 1e6] * 3
