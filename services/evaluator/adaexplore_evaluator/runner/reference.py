"""The role `reference`: a task's inputs, state, truth and description."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from adaexplore_evaluator.runner.constants import Place, size_constants, with_constants
from adaexplore_evaluator.runner.contract import quantisation_contract
from adaexplore_evaluator.runner.describe import describe, measure, prepare
from adaexplore_evaluator.runner.entry import listed
from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.judged import Measured, reduce_shape
from adaexplore_evaluator.runner.precision import cast_instance, cast_value, class_dtype, computing
from adaexplore_evaluator.runner.replies import ReferenceCall
from adaexplore_evaluator.runner.seeding import torch_defaults
from adaexplore_evaluator.runner.state import load_state, move_off_defaults, state_of
from adaexplore_evaluator.runner.tasks import TaskFile, TaskProgram, check_outputs, read_task, run_task
from adaexplore_evaluator.runner.virtual_cuda import CpuOnlyMode
from adaexplore_evaluator.runner.wire import BufferFolder

DEFAULT_MAX_ELEMENTS = 200_000

Fields = dict[str, object]
Report = Callable[[str, str], None]


@dataclass
class _Loaded:
    file: TaskFile
    precision: str
    full: TaskProgram
    judged: TaskProgram
    seed: int | None = None

    def program(self, fields: Fields) -> TaskProgram:
        """The program at the shape that a command names: `full`, or else `judged`."""
        return self.full if fields.get("shape") == "full" else self.judged


class ReferenceRole:
    """Answers the commands of the role; one task a process."""

    def __init__(self, buffers: BufferFolder, report: Report) -> None:
        self._buffers = buffers
        self._report = report
        self._task: _Loaded | None = None
        self.path = ""

    def commands(self) -> dict[str, Callable[[Fields], Fields]]:
        """Handlers by command name; each takes the command's fields and gives the answer's."""
        on_device = (self.describe, self.judged_shape, self.make_inputs, self.make_cases, self.make_state, self.run_reference)
        return {"load_task": self.load_task} | {handler.__name__: self._on_device(handler) for handler in on_device}

    def load_task(self, fields: Fields) -> Fields:
        """Read and execute the task file; answers its format, entry point and the reference's argument names."""
        self._report("load", "task")
        path = Path(_text(fields, "path"))
        self.path = str(path)
        class_dtype(precision := str(fields.get("precision") or "fp32"))
        file = read_task(path, str(fields.get("format") or ""))
        with torch_defaults(), self._device_of(file):
            program = run_task(file, file.tree, "adaexplore_task")
        self._task = _Loaded(file, precision, program, program)
        return {
            "format": file.format,
            "entry_point": file.entry_point,
            "parameters": program.signature(),
            "has_inputs": file.has_inputs,
            "has_cases": bool(file.test),
            "contract": quantisation_contract(file) if file.test else None,
        }

    def describe(self, fields: Fields) -> Fields:
        """The description of the task at the `full` or the `judged` shape."""
        task = self._loaded()
        program = task.full if fields.get("shape", "full") == "full" else task.judged
        return describe(program, class_dtype(task.precision))

    def judged_shape(self, fields: Fields) -> Fields:
        """Find the shape at which numbers are judged, and use it from now on."""
        self._report("setup", "judged shape")
        task = self._loaded()
        limit = fields.get("max_elements")
        max_elements = limit if isinstance(limit, int) and limit > 0 else DEFAULT_MAX_ELEMENTS
        values, program = self._reduced(task, max_elements)
        task.judged = program
        before = {constant.place: constant for constant in size_constants(task.file.tree)}
        changed = {before[place].label: [before[place].value, value] for place, value in values.items()}
        return {"reduced": bool(changed), "constants": changed}

    def make_inputs(self, fields: Fields) -> Fields:
        """Arguments of one call and of the constructor at the judged shape, in the task's class."""
        task = self._loaded()
        with torch_defaults(), torch.no_grad():
            program = task.program(fields)
            inputs = program.in_class(program.inputs(_integer(fields, "seed")), class_dtype(task.precision))
            init_inputs = program.init_inputs()
        return {"inputs": self._buffers.encode(inputs), "init_inputs": self._buffers.encode(init_inputs)}

    def make_cases(self, fields: Fields) -> Fields:
        """Names and arguments of all named cases, what is random in them drawn from the seed."""
        task = self._loaded()
        with torch_defaults(), torch.no_grad():
            cases = task.full.cases(_integer(fields, "seed"))
            dtype = class_dtype(task.precision)
            made = [(case.name, self._buffers.encode(task.full.in_class(case.inputs, dtype))) for case in cases]
        return {"cases": [{"name": name, "inputs": tree} for name, tree in made]}

    def make_state(self, fields: Fields) -> Fields:
        """The state of a reference built from `seed`, moved off its defaults if asked for, in the task's class."""
        task, seed = self._loaded(), _integer(fields, "seed")
        task.seed = seed if task.seed is None else task.seed
        with torch_defaults():
            program = task.program(fields)
            instance = program.construct(program.init_inputs(), seed)
        state = state_of(instance)
        if fields.get("moved") is True:
            move_off_defaults(state, seed)
        cast_instance(instance, class_dtype(task.precision))
        return {"state": self._buffers.encode(state_of(instance))}

    def run_reference(self, fields: Fields) -> Fields:
        """Outputs of the reference for given arguments and state, in float64 or in the task's class.

        It is built from the seed of the first `make_state`, so that random attributes outside of the state are always the same.
        """
        task = self._loaded()
        self._report("check", "reference")
        inputs = self._buffers.decode(fields.get("inputs"))
        init_inputs = listed(self._buffers.decode(fields.get("init_inputs")))
        state = self._buffers.decode(fields.get("state"))
        program, compute = task.program(fields), str(fields.get("compute") or "class")
        with torch_defaults():
            instance = program.construct(init_inputs, task.seed or 0)
            with computing(task.precision, compute) as dtype:
                cast_instance(instance, dtype)
                load_into(instance, state, dtype)
                return ReferenceCall(program, instance, compute, dtype).reply(inputs, fields.get("watch"), self._buffers)

    def _on_device(self, handler: Callable[[Fields], Fields]) -> Callable[[Fields], Fields]:
        """A handler that keeps a task on the cpu whose source names a GPU."""

        def answer(fields: Fields) -> Fields:
            with self._device_of(self._loaded().file):
                return handler(fields)

        return answer

    def _device_of(self, file: TaskFile) -> AbstractContextManager[object]:
        return CpuOnlyMode() if file.names_cuda else nullcontext()

    def _loaded(self) -> _Loaded:
        if self._task is None:
            raise ContractError("no task is loaded yet")
        return self._task

    def _reduced(self, task: _Loaded, max_elements: int) -> tuple[dict[Place, int], TaskProgram]:
        constants = size_constants(task.file.tree)
        for tie_equal in (False, True):
            values = reduce_shape(constants, lambda changed: self._measure(task, changed), max_elements, tie_equal)
            program = self._validated(task, values) if values else None
            if program is not None:
                return values, program
        return {}, task.full

    def _measure(self, task: _Loaded, values: dict[Place, int]) -> Measured | None:
        try:
            program = task.full if not values else self._program(task, values)
            return measure(program, class_dtype(task.precision))
        except Exception:  # a task that raises at these sizes cannot be judged at them, whatever it raises
            return None

    def _validated(self, task: _Loaded, values: dict[Place, int]) -> TaskProgram | None:
        """The program at reduced sizes, if it really constructs and runs there; fake tensors do not see an index out of range."""
        try:
            with torch_defaults(), torch.no_grad():
                program = self._program(task, values)
                prepared = prepare(program, class_dtype(task.precision))
                check_outputs(task.file, prepared.reference(*prepared.inputs))
        except Exception:
            return None
        return program

    def _program(self, task: _Loaded, values: dict[Place, int]) -> TaskProgram:
        return run_task(task.file, with_constants(task.file.tree, values), "adaexplore_task_judged")


def load_into(instance: object, state: object, dtype: torch.dtype) -> None:
    """Cast a state and load it into a reference; ContractError if it does not fit."""
    if not isinstance(state, dict):
        raise ContractError("the state must be a dictionary")
    converted = cast_value(state, dtype)
    result = load_state(instance, converted if isinstance(converted, dict) else {})
    if result.missing or result.mismatched:
        raise ContractError("the state does not fit the reference")


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ContractError(f"the command lacks {name}")
    return value


def _integer(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ContractError(f"the command lacks {name}")
    return value
