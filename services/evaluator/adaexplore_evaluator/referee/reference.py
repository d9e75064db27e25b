"""The reference runner as the referee uses it: loads a task, makes its inputs, and answers in float64 and in the class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from adaexplore_evaluator.referee.clock import PhaseClock
from adaexplore_evaluator.referee.contracts import Contract, contract_of
from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.referee.values import MalformedReplyError, check_storages, leaves, names, objects, text
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import Value, tensors_of

_NAME_CHARS = 120


@dataclass(frozen=True)
class TaskSource:
    """A task as the server sent it.

    Attributes:
        name: File name for messages.
        source: Python source.
        format: `module`, `function`, or empty to recognise it.
        precision: `fp32`, `tf32`, `bf16` or `fp16`.
        track: `any`, `no_vendor_library` or `triton_only`.
        digest: Digest over all of these but the name.

    """

    name: str
    source: str
    format: str
    precision: str
    track: str
    digest: str


@dataclass(frozen=True)
class Made:
    """Arguments of one call at the judged shape.

    Attributes:
        inputs: A list, or a dictionary of `args` and `kwargs`.
        init_inputs: Arguments of the constructor.
        changed: Tensors of the inputs, by number, that the call is to write to.
        others: Further draws of the inputs, where rounds need them.

    """

    inputs: Value
    init_inputs: Value
    changed: tuple[int, ...] = ()
    others: tuple[Value, ...] = ()


@dataclass(frozen=True)
class LoadedTask:
    """What a task file is.

    Attributes:
        format: `module` or `function`.
        entry_point: Name that candidates define.
        has_inputs: Whether it makes the inputs that are timed.
        has_cases: Whether it has named cases.
        contract: What a quantised answer must reach; None where numbers are held to the truth.

    """

    format: str
    entry_point: str
    has_inputs: bool = True
    has_cases: bool = False
    contract: Contract | None = None


@dataclass(frozen=True)
class Answered:
    """What a call of the reference returned, and what it wrote to.

    Attributes:
        outputs: What it returned.
        changed: Tensors of the inputs that it changed, by number.
        after: What those hold after the call.
        factors: The decomposition whose factors the outputs are; empty for all else.

    """

    outputs: Value
    changed: tuple[int, ...]
    after: tuple[Value, ...]
    factors: str

    @property
    def leaves(self) -> list[torch.Tensor]:
        """Tensors and numbers that it returned, and then those that it changed."""
        return [*leaves(self.outputs), *tensors_of(list(self.after))]


class ReferenceSession:
    """One task in one reference runner.

    Args:
        runner: The runner.
        clock: Time budget.
        most_bytes: Size that the storages of one value it sends may have together.

    """

    def __init__(self, runner: Runner, clock: PhaseClock, most_bytes: int) -> None:
        self._runner = runner
        self._clock = clock
        self._most_bytes = most_bytes

    def load(self, task: TaskSource) -> LoadedTask:
        """Load the task and say what it is."""
        path = self._runner.place("task.py", task.source)
        reply = self._ask("load_task", path=path, name=task.name, format=task.format, precision=task.precision)
        names(reply, "parameters")
        return LoadedTask(
            text(reply, "format"),
            text(reply, "entry_point"),
            reply.get("has_inputs") is not False,
            reply.get("has_cases") is True,
            contract_of(reply.get("contract")),
        )

    def describe(self, shape: str) -> JsonObject:
        """Inputs, outputs, state, graph and sizes at the `full` or the `judged` shape."""
        return self._ask("describe", shape=shape)

    def judged_shape(self, max_elements: int) -> bool:
        """Fix the shape at which numbers are judged; True if it is smaller than the full one."""
        return self._ask("judged_shape", max_elements=max_elements).get("reduced") is True

    def under(self, clock: PhaseClock) -> ReferenceSession:
        """The same session under another time budget."""
        return ReferenceSession(self._runner, clock, self._most_bytes)

    @property
    def runner(self) -> Runner:
        """The runner that holds the task."""
        return self._runner

    def make_inputs(self, seed: int, shape: str = "judged") -> Made:
        """The task's own inputs, drawn from `seed`."""
        reply = self._ask("make_inputs", seed=seed, shape=shape)
        made = Made(self._decode(reply.get("inputs")), self._decode(reply.get("init_inputs")))
        self._runner.forget_buffers()
        return made

    def make_cases(self, seed: int) -> list[tuple[str, Made]]:
        """The task's named cases, what is random in them drawn from `seed`."""
        found = [(text(item, "name")[:_NAME_CHARS], item.get("inputs")) for item in objects(self._ask("make_cases", seed=seed), "cases")]
        made = [(name, Made(self._decode(tree), [])) for name, tree in found]
        self._runner.forget_buffers()
        return made

    def make_state(self, seed: int, moved: bool, shape: str = "judged") -> Value:
        """Parameters and buffers drawn from `seed`, on their defaults or moved off them."""
        state = self._decode(self._ask("make_state", seed=seed, moved=moved, shape=shape).get("state"))
        self._runner.forget_buffers()
        return state

    def bind(self, kind: str, made: Made, state: Value) -> None:
        """Let rounds call the reference at full shape, `eager` or `compiled`; a runner on a GPU only."""
        encode = self._runner.encode
        self._ask("bind_rounds", kind=kind, init_inputs=encode(made.init_inputs), state=encode(state))
        self._runner.forget_buffers()

    def run(self, made: Made, state: Value, compute: str, shape: str = "judged") -> Value:
        """The reference's outputs in `float64` or in the `class`."""
        return self.answer(made, state, compute, shape).outputs

    def answer(self, made: Made, state: Value, compute: str, shape: str = "judged", watch: Sequence[int] | None = None) -> Answered:
        """One call of the reference; `watch` names the inputs that are looked at after it, without it those that it changed."""
        encode = self._runner.encode
        reply = self._ask(
            "run_reference",
            inputs=encode(made.inputs),
            state=encode(state),
            init_inputs=encode(made.init_inputs),
            compute=compute,
            shape=shape,
            watch=list(watch) if watch is not None else None,
        )
        outputs = self._decode(reply.get("outputs"))
        changed = _places(reply.get("changed", []), len(tensors_of(made.inputs)))
        after = self._decode(reply["after"]) if changed else []
        self._runner.forget_buffers()
        if len(tensors_of(after)) != len(changed):
            raise MalformedReplyError("a reply names other inputs than it sends")
        return Answered(outputs, changed, tuple(tensors_of(after)), str(reply.get("factors") or ""))

    def _ask(self, command: str, **arguments: object) -> JsonObject:
        return self._runner.command(command, self._clock, **arguments)

    def _decode(self, tree: object) -> Value:
        check_storages(tree, self._most_bytes)
        return self._runner.decode(tree)


def _places(value: object, count: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(place) is int and 0 <= place < count for place in value):
        raise MalformedReplyError("changed is no list of inputs")
    return tuple(value)
