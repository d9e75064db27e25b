"""The role `candidate`: imports one candidate, constructs it, loads its state, and calls it at the judged and at the full shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from adaexplore_evaluator.runner.arguments import call_with
from adaexplore_evaluator.runner.cuda_api import CudaApi
from adaexplore_evaluator.runner.entry import (
    after_load,
    demand_callable,
    demand_plain,
    demand_signature,
    entry_point_of,
    listed,
    load_report,
    sendable,
    state_types,
)
from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.launches import launch_records, violation_records
from adaexplore_evaluator.runner.outputs import EarlierOutputs
from adaexplore_evaluator.runner.precision import cast_instance, class_dtype, set_products
from adaexplore_evaluator.runner.recording import FullShapeMode, JudgeMode, lazy_tensor
from adaexplore_evaluator.runner.seeding import seeded, torch_defaults
from adaexplore_evaluator.runner.session import CandidateSession, translated
from adaexplore_evaluator.runner.sources import load_module
from adaexplore_evaluator.runner.state import load_state, state_of
from adaexplore_evaluator.runner.stragglers import Stragglers
from adaexplore_evaluator.runner.tasks import MODULE
from adaexplore_evaluator.runner.triton_cpu import CompileCache, TuningMemory, compile_snippet, find_target
from adaexplore_evaluator.runner.virtual_cuda import VirtualCudaMode, on_cpu, virtual_cuda
from adaexplore_evaluator.runner.wire import BufferFolder, TensorSpec, decode_with, encode_types, tensors_of

_MODULE_NAME = "adaexplore_candidate"
_FULL_SEED = 0

Fields = dict[str, Any]
Report = Callable[[str, str], None]


@dataclass
class _Loaded:
    path: str
    entry_point: Callable[..., Any]
    is_module: bool
    target: str
    precision: str
    api: CudaApi


class CandidateRole:
    """Answers the commands of the role; one candidate a process."""

    def __init__(self, buffers: BufferFolder, report: Report) -> None:
        self._buffers = buffers
        self._report = report
        self._cache = CompileCache()
        self._tuning_memory = TuningMemory()
        self._loaded: _Loaded | None = None
        self._instance: Callable[..., Any] | None = None
        self._earlier = EarlierOutputs()
        self._stragglers = Stragglers()
        self.path = ""

    def commands(self) -> dict[str, Callable[[Fields], Fields]]:
        """Handlers by command name; each takes the command's fields and gives the answer's."""
        return {
            "load_candidate": self.load_candidate,
            "construct": self.construct,
            "load_state": self.load_state,
            "run": self.run,
            "run_full": self.run_full,
            "compile_snippet": self.compile_snippet,
        }

    def load_candidate(self, fields: Fields) -> Fields:
        """Import the file and find the first entry point that it defines."""
        self._report("load", "candidate")
        path, target, precision = Path(fields["path"]), str(fields["target"]), str(fields.get("precision") or "fp32")
        self.path = str(path)
        class_dtype(precision)
        api = CudaApi(find_target(target))
        with translated(), torch_defaults(), virtual_cuda(api, default_cpu=False), self._session("compile_only", target, 0):
            module = load_module(path, _MODULE_NAME)
        name = entry_point_of(module, path, [str(name) for name in fields["entry_points"]])
        self._loaded = _Loaded(self.path, getattr(module, name), fields.get("format") == MODULE, target, precision, api)
        return {"entry_point": name}

    def construct(self, fields: Fields) -> Fields:
        """Build the instance that later commands use."""
        self._report("setup", "construct")
        loaded = self._candidate()
        self._earlier.forget()
        self._instance = self._construct(loaded, self._buffers.decode(fields["init_inputs"]), int(fields["seed"]))
        return {"state": state_types(self._instance)}

    def load_state(self, fields: Fields) -> Fields:
        """Copy the reference's state in by name; then the candidate's own `after_load`, if nothing was amiss."""
        self._report("setup", "load_state")
        loaded, instance = self._candidate(), self._constructed()
        state = self._buffers.decode(fields["state"])
        result = load_state(instance, state if isinstance(state, dict) else {})
        if not result.missing and not result.mismatched:
            with self._judging(loaded, "judge", 0, poison=0, default_cpu=False):
                after_load(instance)
        return load_report(result)

    def run(self, fields: Fields) -> Fields:
        """One call on mapped inputs: outputs, launches and violations."""
        loaded, instance = self._candidate(), self._constructed()
        inputs = self._buffers.decode(fields["inputs"], shared=True)
        mode = "judge" if fields.get("interpret", True) else "compile_only"
        self._report("check", "run")
        seed, poison = int(fields["order_seed"]), int(fields["poison"])
        options: dict[str, Any] = {"configuration": int(fields.get("configuration", 0))}
        options |= {name: float(fields[name]) for name in ("interpreting_s", "tuning_s") if name in fields}
        with self._judging(loaded, mode, seed, poison, default_cpu=True, **options) as (session, recorder):
            outputs = call_with(instance, inputs)
        demand_plain(outputs)
        late = loaded.api.unseen_work() or self._stragglers.change(tensors_of(outputs))
        self._earlier.demand_untouched(tensors_of(outputs), [*tensors_of(inputs), *state_of(instance).values()])
        return {
            "outputs": sendable(self._buffers.encode, outputs),
            "devices": _devices(outputs),
            "launches": launch_records(session.launches, recorder.calls) + self._stragglers.records(),
            "late": late,
            "violations": violation_records(session.violations),
            "tuning": asdict(session.tuning),
        }

    def run_full(self, fields: Fields) -> Fields:
        """Construct and call at full shape on lazily mapped memory: what is launched, compiled and moved, not what is computed.

        With `judged` the shape is that at which numbers are judged, and autotuned kernels run what was chosen at full shape.
        """
        loaded = self._candidate()
        init_inputs = listed(decode_with(fields["init_inputs"], _lazy))
        inputs = decode_with(fields["inputs"], _lazy)
        self._report("compile", "full shape")
        session = self._session(
            "full",
            loaded.target,
            int(fields.get("seed", 0)),
            at_full_shape=not fields.get("judged", False),
            store_programs=int(fields.get("store_programs", 0)),
        )
        with ExitStack() as stack:
            recorder = stack.enter_context(FullShapeMode(loaded.path, lambda: len(session.launches), session.coverage.allocated))
            session.pause_while_launching(recorder)
            instance = self._construct(loaded, init_inputs, _FULL_SEED, session)
            with self._calling(loaded, session, default_cpu=False):
                after_load(instance)
            session.launches.clear()
            session.coverage.clear()
            recorder.calls.clear()
            with self._calling(loaded, session, default_cpu=True) as device:
                outputs = call_with(instance, inputs)
        demand_plain(outputs)
        return {
            "outputs": sendable(encode_types, outputs),
            "devices": _devices(outputs),
            "launches": launch_records(session.launches, recorder.calls) + self._stragglers.records(),
            "moved_bytes": device.moved_bytes,
            "coverage": [asdict(item) for item in session.coverage.coverages()],
            # Inputs are zeros here and long loops are cut, so only what follows from sizes alone is told.
            "violations": violation_records([item for item in session.violations if item.kind == "offset_overflow"]),
        }

    def compile_snippet(self, fields: Fields) -> Fields:
        """Compile one kernel of a source; artifacts are files in the shared folder."""
        self._report("compile", str(fields["function_name"]))
        with translated():
            compiled = compile_snippet(
                source=str(fields["source"]),
                function_name=str(fields["function_name"]),
                signature=dict(fields["signature"]),
                constexprs=dict(fields["constexprs"]),
                num_warps=int(fields["num_warps"]),
                num_stages=int(fields["num_stages"]),
                target=str(fields["target"]),
            )
        files = [{"kind": kind, "file": self._buffers.write_bytes(data)} for kind, data in compiled.artifacts.items()]
        return {"resources": asdict(compiled.resources), "artifacts": files}

    def _construct(self, loaded: _Loaded, init_inputs: object, seed: int, session: CandidateSession | None = None) -> Callable[..., Any]:
        if not loaded.is_module:
            return loaded.entry_point
        instance: Callable[..., Any]
        arguments = listed(init_inputs)
        demand_signature(loaded.entry_point, arguments)
        with seeded(seed), self._calling(loaded, session or self._session("judge", loaded.target, 0), default_cpu=False):
            instance = loaded.entry_point(*arguments)
        demand_callable(instance, loaded.entry_point)
        # A dtype that the candidate chose itself is its own affair; what the numbers then are, the checks tell.
        cast_instance(instance, class_dtype(loaded.precision), only=torch.float32)
        return instance

    @contextmanager
    def _judging(
        self, loaded: _Loaded, mode: str, order_seed: int, poison: int, default_cpu: bool, **options: Any
    ) -> Iterator[tuple[CandidateSession, JudgeMode]]:
        session = self._session(mode, loaded.target, order_seed, precision=loaded.precision, **options)
        recorder = JudgeMode(loaded.path, lambda: len(session.launches), poison)
        session.pause_while_launching(recorder)
        with recorder, self._calling(loaded, session, default_cpu):
            yield session, recorder

    @contextmanager
    def _calling(self, loaded: _Loaded, session: CandidateSession, default_cpu: bool) -> Iterator[VirtualCudaMode]:
        """The candidate's own code runs in the body: virtual device, Triton hooks, no gradients, typed errors."""
        set_products(loaded.precision)
        with translated(), torch_defaults(), torch.no_grad(), virtual_cuda(loaded.api, default_cpu) as device, session:
            yield device

    def _session(self, mode: str, target: str, order_seed: int, **options: Any) -> CandidateSession:
        return CandidateSession(
            mode=mode,
            target=target,
            order_seed=order_seed,
            progress=self._report,
            compile_cache=self._cache,
            tuning_memory=self._tuning_memory,
            **options,
        )

    def _candidate(self) -> _Loaded:
        if self._loaded is None:
            raise ContractError("no candidate is loaded yet")
        return self._loaded

    def _constructed(self) -> Callable[..., Any]:
        if self._instance is None:
            raise ContractError("the candidate is not constructed yet")
        return self._instance


def _devices(outputs: object) -> list[str]:
    return ["cpu" if on_cpu(tensor) else "cuda" for tensor in tensors_of(outputs)]


def _lazy(spec: TensorSpec) -> torch.Tensor:
    extent = 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, spec.strides, strict=True)) if 0 not in spec.shape else 0
    return lazy_tensor(spec.dtype, spec.shape, spec.strides, extent)
