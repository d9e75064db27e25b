"""The role `candidate` on a real GPU: loads one candidate, gives it state, calls it for checks and in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from adaexplore_evaluator.runner.arguments import call_with
from adaexplore_evaluator.runner.cuda.errors import translated
from adaexplore_evaluator.runner.cuda.flags import class_products
from adaexplore_evaluator.runner.cuda.launches import LaunchRecorder
from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.cuda.rounds import Rounds
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
from adaexplore_evaluator.runner.launches import merged_records
from adaexplore_evaluator.runner.outputs import EarlierOutputs
from adaexplore_evaluator.runner.precision import cast_instance, class_dtype
from adaexplore_evaluator.runner.recording import JudgeMode
from adaexplore_evaluator.runner.seeding import seeded, torch_defaults
from adaexplore_evaluator.runner.sources import load_module
from adaexplore_evaluator.runner.state import load_state, state_of
from adaexplore_evaluator.runner.tasks import MODULE
from adaexplore_evaluator.runner.wire import tensors_of

_MODULE_NAME = "adaexplore_candidate"

Fields = dict[str, Any]
Report = Callable[[str, str], None]


@dataclass
class _Loaded:
    path: str
    entry_point: Callable[..., Any]
    is_module: bool
    precision: str


class CudaCandidateRole:
    """Answers the commands of the role; one candidate a process."""

    def __init__(self, buffers: DeviceBuffers, report: Report) -> None:
        self._buffers = buffers
        self._report = report
        self._loaded: _Loaded | None = None
        self._instance: Callable[..., Any] | None = None
        self._earlier = EarlierOutputs()
        self._recorder = LaunchRecorder(report)
        self._rounds = Rounds(buffers, self._entered)
        self.path = ""

    def commands(self) -> dict[str, Callable[[Fields], Fields]]:
        """Handlers by command name; each takes the command's fields and gives the answer's."""
        own = (self.load_candidate, self.construct, self.load_state, self.run, self.bind_rounds)
        return {handler.__name__: handler for handler in own} | self._rounds.commands()

    def load_candidate(self, fields: Fields) -> Fields:
        """Import the file and find the first entry point that it defines."""
        self._report("load", "candidate")
        path, precision = Path(fields["path"]), str(fields.get("precision") or "fp32")
        self.path = str(path)
        class_dtype(precision)
        with translated(self.path), torch_defaults():
            module = load_module(path, _MODULE_NAME)
        name = entry_point_of(module, path, [str(name) for name in fields["entry_points"]])
        self._loaded = _Loaded(self.path, getattr(module, name), fields.get("format") == MODULE, precision)
        return {"entry_point": name}

    def construct(self, fields: Fields) -> Fields:
        """Build the instance that later commands use; what it makes without a device is made on the GPU."""
        self._report("setup", "construct")
        loaded = self._candidate()
        self._earlier.forget()
        self._instance = self._built(loaded, listed(self._buffers.decode(fields["init_inputs"])), int(fields["seed"]))
        return {"state": state_types(self._instance)}

    def load_state(self, fields: Fields) -> Fields:
        """Copy the reference's state in by name; then the candidate's own `after_load`, if nothing was amiss."""
        self._report("setup", "load_state")
        instance = self._constructed()
        state = self._buffers.decode(fields["state"])
        result = load_state(instance, state if isinstance(state, dict) else {})
        if not result.missing and not result.mismatched:
            with self._calling():
                after_load(instance)
                torch.cuda.synchronize()
        return load_report(result)

    def run(self, fields: Fields) -> Fields:
        """One call on inputs that the referee wrote: outputs as they are when the current stream is done, and what was launched.

        `poison` fills fresh memory, unless it is negative: then nothing stands between the candidate and torch.
        """
        loaded, instance = self._candidate(), self._constructed()
        inputs = self._buffers.decode(fields["inputs"])
        poison = int(fields.get("poison", -1))
        self._report("check", "run")
        self._recorder.clear()
        self._recorder.skipping = not fields.get("interpret", True)
        guards = self._buffers.guards
        mode = JudgeMode(loaded.path, lambda: len(self._recorder.records), poison, guards.guarded) if poison >= 0 else None
        try:
            with mode or nullcontext(), self._checking(), self._calling():
                outputs = call_with(instance, inputs)
                torch.cuda.current_stream().synchronize()
        finally:
            self._recorder.skipping = False  # what is constructed next launches its kernels
        demand_plain(outputs)
        with self._entered():
            late = _late(outputs)
        self._earlier.demand_untouched(tensors_of(outputs), [*tensors_of(inputs), *state_of(instance).values()])
        return {
            "outputs": sendable(self._buffers.encode, outputs),
            "devices": ["cuda" if tensor.is_cuda else "cpu" for tensor in tensors_of(outputs)],
            "launches": merged_records(self._recorder.records, mode.calls if mode else []),
            "late": late,
            "violations": self._violations(),
            "tuning": {"configurations": [], "chosen": 0, "unfit": []},
        }

    def _violations(self) -> list[Fields]:
        with self._entered():
            broken = self._buffers.guards.broken()
        names = [str(record["name"]) for record in self._recorder.records]
        kernel = names[-1] if names else ""
        return [{"kind": "out_of_bounds", "kernel_name": kernel, "line": 0, "message": text} for text in broken]

    def bind_rounds(self, _fields: Fields) -> Fields:
        """Let rounds call the instance."""
        self._rounds.bind(self._constructed())
        return {}

    def _built(self, loaded: _Loaded, arguments: list[Any], seed: int) -> Callable[..., Any]:
        if not loaded.is_module:
            return loaded.entry_point
        demand_signature(loaded.entry_point, arguments)
        with seeded(seed), self._calling(), torch.device("cuda"):
            instance = loaded.entry_point(*arguments)
            torch.cuda.synchronize()  # a fault of a kernel that it launched is told as one
        demand_callable(instance, loaded.entry_point)
        # A dtype that the candidate chose itself is its own affair; what the numbers then are, the checks tell.
        cast_instance(instance, class_dtype(loaded.precision), only=torch.float32)
        return instance.cuda() if isinstance(instance, torch.nn.Module) else instance

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """The candidate's own code runs in the body."""
        with self._entered(), self._recorder.installed():
            yield

    @contextmanager
    def _checking(self) -> Iterator[None]:
        self._recorder.checking = True
        try:
            yield
        finally:
            self._recorder.checking = False

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """As `_calling`, but with nothing between the candidate and a launch."""
        loaded = self._candidate()
        with translated(loaded.path), torch_defaults(), torch.no_grad(), class_products(loaded.precision):
            yield

    def _candidate(self) -> _Loaded:
        if self._loaded is None:
            raise ContractError("no candidate is loaded yet")
        return self._loaded

    def _constructed(self) -> Callable[..., Any]:
        if self._instance is None:
            raise ContractError("the candidate is not constructed yet")
        return self._instance


def _late(outputs: Any) -> bool:
    """True if outputs change after the stream that returned them is done: other streams write them, and nothing waits for those."""
    tensors = [tensor for tensor in tensors_of(outputs) if tensor.is_cuda and tensor.numel()]
    before = [tensor.detach().clone() for tensor in tensors]
    torch.cuda.synchronize()
    pairs = zip(before, tensors, strict=True)
    return not all(torch.equal(_bits(left), _bits(right)) for left, right in pairs)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
