"""What a call launches on a real GPU: Triton kernels by a hook on their launch, operators by the dispatch mode beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from adaexplore_evaluator.runner.triton_cpu.rewriting import definition_line

Record = dict[str, object]


class LaunchRecorder:
    """Triton launches since `clear`, in the protocol's form; what a tuner tries is not part of a call.

    Args:
        report: Told when compiling, tuning and checking begin, while `checking`.

    Attributes:
        records: The launches.
        skipping: Whether kernels are compiled and told of, but not launched.
        checking: Whether a call is checked, whose compiling and tuning have budgets of their own.

    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.records: list[Record] = []
        self.skipping = False
        self.checking = False
        self._report = report
        self._tuning = 0
        self._learnt = ""
        self._timed: dict[str, list[tuple[float, str]]] = {}

    def clear(self) -> None:
        """Begin anew."""
        self.records.clear()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hook Triton's launches for the body."""
        run, bench, make = JITFunction.run, Autotuner._bench, JITFunction._do_compile
        JITFunction.run, JITFunction._do_compile = self._hooked(run), self._compiling(make)
        Autotuner._bench = self._uncounted(bench)
        try:
            yield
        finally:
            JITFunction.run, Autotuner._bench, JITFunction._do_compile = run, bench, make

    def _hooked(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(function: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            kernel = run(function, *args, grid=grid, warmup=warmup or self.skipping, **kwargs)
            if not warmup and not self._tuning:
                self.records.append(_record(function, kernel, grid, args, kwargs))
            return kernel

        return launch

    def _uncounted(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        def tried(tuner: Any, /, *args: Any, config: Any, **kwargs: Any) -> Any:
            name = getattr(tuner.base_fn, "__name__", "a kernel")
            timed = self._timed.setdefault(name, [])
            self._tuning += 1
            self._learnt = _told(name, timed)
            try:
                with self._phase("tune", self._learnt):
                    found = bench(tuner, *args, config=config, **kwargs)
            finally:
                self._tuning -= 1
            timed.append((_seconds(found), str(config)))
            return found

        return tried

    def _compiling(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(function: Any, *args: Any, **kwargs: Any) -> Any:
            with self._phase("compile", str(function.fn.__name__)):
                return make(function, *args, **kwargs)

        return compiled

    @contextmanager
    def _phase(self, name: str, text: str) -> Iterator[None]:
        if not self.checking:
            yield
            return
        self._report(name, text)
        try:
            yield
        finally:
            inside = self._tuning and name == "compile"
            self._report("tune" if inside else "check", self._learnt if inside else text)


def _seconds(found: Any) -> float:
    """The median of what a tuner's own benchmark gives: quantiles, or one number."""
    try:
        return float(found[0] if isinstance(found, list | tuple) else found)
    except (TypeError, ValueError, IndexError):
        return math.inf


def _told(name: str, timed: list[tuple[float, str]]) -> str:
    if not timed:
        return f"no configuration of {name} is timed yet"
    return f"{len(timed)} configurations of {name} are timed, the fastest {min(timed)[1]}"


def _record(function: Any, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record:
    metadata = kernel.metadata
    return {
        "kind": "triton",
        "name": function.fn.__name__,
        "grid": _extents(function, grid, args, kwargs),
        "constexprs": {},
        "num_warps": int(metadata.num_warps),
        "num_stages": int(getattr(metadata, "num_stages", 1) or 1),
        "line": definition_line(function),
        "resources": {
            # Known once a kernel is loaded, which one that is left out may never be.
            "registers": int(getattr(kernel, "n_regs", 0) or 0),
            "spill_bytes": 4 * int(getattr(kernel, "n_spills", 0) or 0),
            "shared_bytes": int(metadata.shared),
            "num_warps": int(metadata.num_warps),
            "num_ctas": int(getattr(metadata, "num_ctas", 1) or 1),
        },
        "count": 1,
    }


def _extents(function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    try:
        names = [parameter.name for parameter in function.params]
        found = grid({**dict(zip(names, args, strict=False)), **kwargs}) if callable(grid) else grid
        return [int(extent) for extent in found]
    except Exception:  # a grid may do anything; it is told for people only
        return []
