"""When baselines are measured: once, again after a drift of the GPU, and again for a leader."""

import types
from dataclasses import replace

import pytest
import torch
from adaexplore_evaluator.devices.cpu.baseline import BaselineKind
from adaexplore_evaluator.referee.cuda import baseline_runner as runner_module
from adaexplore_evaluator.referee.cuda import baselines as module
from adaexplore_evaluator.referee.cuda.baselines import Baselines
from adaexplore_evaluator.referee.cuda.canary import Reading
from adaexplore_evaluator.referee.cuda.clock import Rounds
from adaexplore_evaluator.referee.cuda.timing import baseline_of, disagreement, faster_of
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.runners import RunnerEndedError, RunnerErrorReport, RunnerFailureError, RunnerTimeoutError
from adaexplore_evaluator.referee.tasks import MemoryLostError, WorkerLostError


def measured(kind, *samples_us):
    return baseline_of(kind, Rounds(samples_us, (), 8, True))


class Runner:
    """In place of a reference process: answers what it is given, in turn."""

    def __init__(self, *_):
        self.alive, self.kinds, self.even, self.compiled = True, [], False, 0
        Runner.made.append(self)

    def compile(self):
        self.compiled += 1

    def measured(self):
        return tuple(self.measure(kind) for kind in BaselineKind)

    def measure(self, kind):
        self.kinds.append(kind)
        return measured(kind, *Runner.samples_us.pop(0)) if Runner.samples_us else measured(kind, 10.0, 10.0, 10.0)

    def close(self):
        self.alive = False


class Canary:
    reading = Reading(100.0, 50.0)

    def read(self):
        return self.reading


def task(source="task", elements=8):
    found = types.SimpleNamespace(source=source, format="module", precision="fp32")
    kind = {"dtype": "float32", "shape": [elements]}
    return types.SimpleNamespace(source=found, cases=[None], full={"inputs": [{"name": "x", "tensor": kind}], "outputs": [kind]})


@pytest.fixture
def canary():
    return Canary()


@pytest.fixture
def book(monkeypatch, canary):
    monkeypatch.setattr(module, "BaselineRunner", Runner)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(L2_cache_size=1))
    Runner.made, Runner.samples_us = [], []
    return Baselines(types.SimpleNamespace(value_bytes=1), lambda: 0.0, canary)


def test_a_task_is_measured_once(book):
    assert [book.refresh(task()) for _ in range(3)] == [True, False, False]
    assert [runner.kinds for runner in Runner.made] == [[BaselineKind.EAGER, BaselineKind.COMPILED]]
    assert [item.kind for item in book.known(task())] == [BaselineKind.EAGER, BaselineKind.COMPILED]


def test_a_gpu_that_has_become_slower_is_measured_anew(book, canary):
    book.refresh(task())
    canary.reading = Reading(100.0, 53.0)
    assert "a clock cycle takes +6% of what it took" in book.drift(task())
    book.refresh(task())
    assert book.drift(task()) == ""
    assert len(Runner.made[0].kinds) == 4


def test_a_gpu_that_changes_while_baselines_are_measured_is_told(book, canary, monkeypatch):
    book.refresh(task())
    assert book.changed() == ""

    def slower(runner, kind):
        canary.reading = Reading(0.95 * canary.reading.copy_us, 50.0)
        return measured(kind, 10.0, 10.0, 10.0)

    monkeypatch.setattr(Runner, "measure", slower)
    book.refresh(task("another"))
    assert "copying memory takes -10%" in book.changed()
    monkeypatch.setattr(Runner, "measure", lambda _, kind: measured(kind, 10.0, 10.0, 10.0))
    book.refresh(task("another"))
    assert book.changed() == "", "known ones, and a GPU that is not as it was then, are measured anew"


def test_a_gpu_that_changes_once_while_baselines_are_measured_is_measured_again(book, canary, monkeypatch):
    def slower(runner, kind):
        canary.reading = Reading(90.0, 50.0)
        return measured(kind, 10.0, 10.0, 10.0)

    monkeypatch.setattr(Runner, "measure", slower)
    book.refresh(task())
    assert book.changed() == ""
    assert book.drift(task()) == ""


def test_baselines_of_a_gpu_as_fast_as_when_the_candidate_was_timed_serve_it(book, canary):
    book.refresh(task())
    canary.reading = Reading(90.0, 50.0)
    assert not book.refresh(task(), Reading(101.0, 50.0)), "what counts is how fast the GPU was when the candidate was timed"
    assert book.refresh(task(), Reading(90.0, 50.0))
    assert book.changed() == ""
    assert book.refresh(task(), Reading(100.0, 50.0))
    assert "copying memory takes -10%" in book.changed()


def test_baselines_are_compiled_ahead_unless_they_are_known(book):
    book.prepare(task())
    book.refresh(task())
    book.prepare(task())
    assert [(runner.compiled, len(runner.kinds)) for runner in Runner.made] == [(1, 2)]


def test_baselines_of_a_large_task_take_no_memory_from_its_candidate(book):
    large = task(elements=1 << 30)
    book.prepare(large)
    assert Runner.made == []
    book.refresh(large)
    book.prepare(large)
    assert [(runner.compiled, runner.alive) for runner in Runner.made] == [(0, False)]
    assert not book.refresh(large), "what was measured stays known"


@pytest.mark.parametrize("refuses", [True, False])
def test_a_reference_that_refuses_elements_scaled_one_by_one_is_known_before_its_baselines(book, refuses):
    asked = []

    class Refusing:
        def under(self, _clock):
            return self

        def run(self, made, *_, **__):
            asked.append(made.inputs[0])
            if refuses and not torch.equal(made.inputs[0], made.inputs[0][:1].expand(4)):
                raise refused()

    prepared = task()
    prepared.session = Refusing()
    made = Made([torch.ones(4)], [])
    assert book.even(prepared, made, {}) is refuses
    number = len(asked)
    assert book.even(prepared, made, {}) is refuses
    assert len(asked) == number
    book.refresh(prepared)
    assert Runner.made[0].even is refuses


def test_a_little_more_or_less_is_no_drift():
    assert Reading(100.0, 50.0).drifted_from(Reading(103.0, 49.0)) == ""
    assert "copying memory takes -20%" in Reading(80.0, 50.0).drifted_from(Reading(100.0, 50.0))


def test_baselines_that_scatter_are_measured_once_more(book):
    Runner.samples_us = [(10.0, 20.0, 30.0), (10.0, 10.0, 10.0)]
    book.refresh(task())
    assert len(Runner.made[0].kinds) == 4
    assert book.known(task())[0].median_us == 10.0


def test_only_what_beats_all_before_it_leads(book):
    book.refresh(task())
    found = []
    for us in (11.0, 9.0, 9.5, 8.0):
        found.append(book.leads(task(), us))
        book.measured(task(), us)
    assert found == [False, True, False, True]


def test_a_leader_finds_the_process_that_measured_its_baseline(book):
    book.refresh(task())
    book.again(task(), BaselineKind.COMPILED)
    assert [runner.kinds for runner in Runner.made] == [[BaselineKind.EAGER, BaselineKind.COMPILED, BaselineKind.COMPILED]]


@pytest.mark.parametrize("lost", [True, False])
def test_another_task_or_a_lost_process_gets_a_new_one(book, lost):
    book.refresh(task())
    Runner.made[0].alive = not lost
    book.again(task() if lost else task("another"), BaselineKind.EAGER)
    assert len(Runner.made) == 2


def test_a_baseline_that_cannot_be_measured_again_is_no_verdict(book, monkeypatch):
    book.refresh(task())
    monkeypatch.setattr(Runner, "measure", lambda *_: None)
    with pytest.raises(WorkerLostError):
        book.again(task(), BaselineKind.COMPILED)


def test_the_faster_of_two_measurements_counts_and_what_lies_apart_is_told():
    before, after = measured(BaselineKind.EAGER, 100.0, 100.0), measured(BaselineKind.EAGER, 97.0, 97.0)
    assert faster_of(before, after) is after
    assert disagreement(before, after) == ""
    apart = disagreement(before, measured(BaselineKind.EAGER, 120.0))
    assert "The eager baseline took 100.0 µs before the candidate and 120.0 µs after it." in apart


class Process(runner_module.CudaRunner):
    """In place of a started runner; notes what it is asked."""

    def __init__(self):
        self.asked, self.closed = [], False
        self.segments = types.SimpleNamespace(forget=lambda: None)

    @property
    def alive(self):
        return not self.closed

    def command(self, name, _clock, /, **_):
        self.asked.append(name)
        return {}

    def wait_until_ready(self, _clock):
        pass

    def forget_buffers(self):
        self.asked.append("forget")

    def close(self):
        self.closed = True


class Session:
    def __init__(self, *_):
        self.bound = []

    def under(self, _clock):
        return self

    def load(self, _source):
        pass

    def make_state(self, *_, **__):
        return {}

    def bind(self, kind, *_):
        self.bound.append(kind)

    def run(self, *_, **__):
        return [torch.zeros(2), torch.zeros(3)]


@pytest.fixture
def runner(monkeypatch):
    """A runner of baselines whose rounds end as `ends` say, in turn; `evens` tells how slots were scaled."""
    ends, evens, asked = [], [], []

    class Clock:
        def __init__(self, *_, output_tensors, even, others):
            assert output_tensors == 2
            evens.append(even)

        def prepare(self):
            asked.append("prepare")

        def profiled(self, found):
            asked.append("profiled")
            return found

        def close(self):
            asked.append("close")

        def run(self):
            end = ends.pop(0)
            if isinstance(end, Exception):
                raise end
            return end

    monkeypatch.setattr(runner_module, "RoundClock", Clock)
    monkeypatch.setattr(runner_module, "ReferenceSession", Session)
    process = Process()
    fleet = types.SimpleNamespace(reference=lambda: process, value_bytes=1, release=lambda started: started.close())
    prepared = types.SimpleNamespace(source="task", seed=1)
    made = types.SimpleNamespace(inputs=[], others=())
    found = runner_module.BaselineRunner(fleet, lambda: 0.0, prepared, lambda: (made, {}), 1)
    return types.SimpleNamespace(of=found, process=process, ends=ends, evens=evens, asked=asked)


ROUNDS = Rounds((1.0,), (), 8, True)


def refused():
    return RunnerFailureError(RunnerErrorReport("runtime"))


def test_a_task_that_the_compiler_refuses_keeps_its_eager_baseline_and_no_memory(runner):
    runner.ends += [ROUNDS, refused()]
    assert [item.kind for item in runner.of.measured()] == [BaselineKind.EAGER]
    assert runner.process.asked[-2:] == ["close_rounds", "forget"]
    assert runner.of.alive


def test_a_task_whose_compiling_takes_too_long_keeps_its_eager_baseline(runner, monkeypatch):
    def lost(*_, **__):
        raise RunnerEndedError(None, "")

    runner.ends += [ROUNDS, RunnerTimeoutError()]
    monkeypatch.setattr(Process, "command", lost)
    assert [item.kind for item in runner.of.measured()] == [BaselineKind.EAGER]
    assert not runner.of.alive


def test_a_reference_that_refuses_inputs_scaled_one_by_one_gets_evenly_scaled_ones(runner):
    runner.ends += [refused(), ROUNDS, ROUNDS]
    assert len(runner.of.measured()) == 2
    assert runner.evens == [False, True, True]
    assert runner.of.even


def test_a_baseline_is_only_profiled_where_its_graph_does_not_tell_its_kernels(runner):
    runner.ends += [replace(ROUNDS, nodes=3.0), ROUNDS]
    assert len(runner.of.measured()) == 2
    assert runner.asked == ["prepare", "close", "prepare", "profiled", "close"]


@pytest.mark.parametrize("end", [refused(), RunnerTimeoutError(), RunnerEndedError(None, "")])
def test_a_task_that_cannot_be_compiled_ahead_is_told_when_it_is_measured(runner, monkeypatch, end):
    def fails(_process, name, _clock, /, **_):
        if name == "open_rounds":
            raise end
        return {}

    monkeypatch.setattr(Process, "command", fails)
    monkeypatch.setattr(runner_module, "Slots", lambda *_: types.SimpleNamespace(allocate=lambda _: {}, release=lambda: None))
    runner.of.compile()
    assert runner.of.alive is isinstance(end, RunnerFailureError)


def test_a_reference_without_memory_may_have_it_alone(runner):
    runner.ends += [RunnerFailureError(RunnerErrorReport("out_of_memory"))] * 2
    with pytest.raises(MemoryLostError):
        runner.of.measured()


def test_a_reference_that_refuses_any_inputs_is_lost(runner):
    runner.ends += [refused(), refused()]
    with pytest.raises(WorkerLostError):
        runner.of.measured()
    assert runner.process.closed


def test_the_bar_of_a_first_look_is_the_best_baseline_that_is_known(book):
    assert book.bar(task()).busy_us == 0.0
    Runner.samples_us = [(30.0, 30.0, 30.0), (20.0, 20.0, 20.0)]
    book.refresh(task())
    assert book.bar(task()).busy_us == 20.0
