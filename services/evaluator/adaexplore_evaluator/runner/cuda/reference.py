"""The role `reference` on a real GPU: inputs, state and truth at full shape, and the baselines that rounds time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import torch

from adaexplore_evaluator.runner import graph
from adaexplore_evaluator.runner.cuda.flags import class_products
from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.cuda.rounds import Rounds
from adaexplore_evaluator.runner.entry import listed
from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.precision import cast_instance, class_dtype, computing
from adaexplore_evaluator.runner.reference import ReferenceRole, load_into
from adaexplore_evaluator.runner.replies import ReferenceCall
from adaexplore_evaluator.runner.seeding import torch_defaults

Fields = dict[str, Any]


class CudaReferenceRole(ReferenceRole):
    """Answers the commands of the role; what a task makes without a device is made on the GPU."""

    def __init__(self, buffers: DeviceBuffers, report: Callable[[str, str], None]) -> None:
        super().__init__(buffers, report)  # type: ignore[arg-type]
        self._rounds = Rounds(buffers, self._calling)
        self._placed = False

    def commands(self) -> dict[str, Callable[[Fields], Fields]]:
        """Handlers by command name."""
        on_gpu = (self.judged_shape, self.make_inputs, self.make_cases, self.make_state, self.run_reference, self.bind_rounds)
        placed = {handler.__name__: self._on_gpu(handler) for handler in on_gpu}
        return super().commands() | placed | self._rounds.commands() | {"open_rounds": self.open_rounds}

    def run_reference(self, fields: Fields) -> Fields:
        """Outputs of the reference for given arguments and state, in float64 or in the task's class."""
        task = self._loaded()
        self._report("check", "reference")
        inputs, compute = self._buffers.decode(fields.get("inputs")), str(fields.get("compute") or "class")
        # Constructed outside of what computes: random attributes must be the same in float64 and in the class.
        dtype = torch.float64 if compute == "float64" else class_dtype(task.precision)
        with torch_defaults():
            instance = self._instance(fields, dtype)
        with torch_defaults(), _computing(task.precision, compute) as dtype:
            call = ReferenceCall(task.program(fields), instance, compute, dtype)
            reply = call.reply(inputs, fields.get("watch"), self._buffers)
        torch.cuda.synchronize()
        return reply

    def bind_rounds(self, fields: Fields) -> Fields:
        """Let rounds call the reference in its class, `eager` or `compiled`, with the given state."""
        task = self._loaded()
        with torch_defaults():
            instance = self._instance({**fields, "shape": "full"}, class_dtype(task.precision))
        self._placed = False
        self._rounds.bind(torch.compile(instance) if fields.get("kind") == "compiled" else instance)
        return {}

    def _instance(self, fields: Fields, dtype: torch.dtype) -> Callable[..., Any]:
        task = self._loaded()
        instance = task.program(fields).construct(listed(self._buffers.decode(fields.get("init_inputs"))), task.seed or 0)
        cast_instance(instance, dtype)
        if isinstance(instance, torch.nn.Module):
            instance.cuda()
        load_into(instance, self._buffers.decode(fields.get("state")), dtype)
        if not callable(instance):
            raise ContractError("the reference is not callable")
        return instance

    def open_rounds(self, fields: Fields) -> Fields:
        """As `Rounds.open_rounds`; a task that makes tensors without a device is called under the default device from then on."""
        try:
            return self._rounds.open_rounds(fields)
        except RuntimeError:
            if self._placed:
                raise
            self._placed = True
            try:
                return self._rounds.open_rounds(fields)
            except BaseException:
                self._placed = False  # it was not that, and calls under a default device are slower
                raise

    @contextmanager
    def _calling(self) -> Iterator[None]:
        place = _default_device() if self._placed else nullcontext()
        with torch_defaults(), torch.no_grad(), class_products(self._loaded().precision), place:
            yield

    def _on_gpu(self, handler: Callable[[Fields], Fields]) -> Callable[[Fields], Fields]:
        def answer(fields: Fields) -> Fields:
            with _default_device():
                return handler(fields)

        return answer


def warm_up() -> None:
    """Import what tracing and compiling a task take, so that no task waits for it; nothing touches the GPU."""
    graph.warm_up()
    with suppress(ImportError):  # a torch without a compiler has no compiled baseline
        importlib.import_module("torch._inductor.compile_fx")


def _default_device() -> AbstractContextManager[object]:
    return torch.device("cuda") if torch.cuda.is_available() else nullcontext()


@contextmanager
def _computing(precision: str, compute: str) -> Iterator[torch.dtype]:
    """As on the cpu, but the class's own rounding is the GPU's."""
    if compute == "float64":
        with computing(precision, compute) as dtype:
            yield dtype
        return
    with class_products(precision), torch.no_grad():
        yield class_dtype(precision)
