"""Slots and outputs of timed rounds, and the clock over a runner that does as it is told or cheats."""

import contextlib
import random
import types

import pytest
import torch
from adaexplore_evaluator.referee.cuda import clock as clock_module
from adaexplore_evaluator.referee.cuda import slots as slots_module
from adaexplore_evaluator.referee.cuda.clock import RoundClock
from adaexplore_evaluator.referee.cuda.first_look import Bar
from adaexplore_evaluator.referee.cuda.outputs import Regions
from adaexplore_evaluator.referee.cuda.profile import parsed_profile
from adaexplore_evaluator.referee.cuda.slots import Slots
from adaexplore_evaluator.referee.values import MalformedReplyError
from adaexplore_evaluator.referee.verdicts import StopError
from adaexplore_evaluator.runner.wire import decode_with, map_tensors

CALL_S = 2e-4
COST_S = 1e-4
FLUSH_S, COLD_S, WARM_S = 5e-5, 3e-5, 4e-5
NOW = types.SimpleNamespace(s=0.0)


class Runner:
    """Calls a function on the cpu in place of a runner on a GPU; values travel as Python objects."""

    def __init__(self, subject, captures=True):
        self.subject, self.captures = subject, captures
        self.slots, self.graphs, self.outputs = [], [], []
        self.segments = types.SimpleNamespace(forget=lambda: None, base_of=lambda address: address)
        self.asked = []
        self.tells_nodes = True

    def command(self, name, _clock, /, **fields):
        self.asked.append(name)
        NOW.s += COST_S
        return getattr(self, f"do_{name}", lambda **_: {})(**fields)

    def allocate(self, tree):
        return self.command("allocate", None, tree=tree)

    def look(self, value):
        return value["value"]

    def forget_buffers(self):
        pass

    @contextlib.contextmanager
    def paused(self):
        yield

    def do_allocate(self, tree):
        made = decode_with(tree, lambda spec: torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype))
        return {"tree": {"value": made}}

    def do_open_rounds(self, slots):
        self.slots, self.graphs = slots["value"], []
        return {}

    def do_capture(self, first, count, times, flush_bytes):
        if not self.captures:
            return {"captured": False, "reason": "it asks the host"}
        outputs = [torch.empty_like(self.slots[first][0]) for _ in range(count * times)]
        self.graphs.append((first, outputs, times, flush_bytes))
        return {"captured": True, "nodes": 3 * count * times * self.tells_nodes, "outputs": {"value": outputs}}

    def do_capture_flushes(self, count, flush_bytes):
        self.graphs.append((0, [None] * count, 1, flush_bytes))
        return {}

    def do_replay(self, graphs):
        for number in graphs:
            first, outputs, times, flush_bytes = self.graphs[number]
            for at, output in enumerate(outputs):
                if flush_bytes:
                    NOW.s += FLUSH_S
                if output is not None:
                    NOW.s += self.extra_s(at % times > 0, flush_bytes > 0)
                    self.subject(output, self.slots[first + at // times][0])
        return {}

    def extra_s(self, again, flushed):
        return COLD_S if flushed else -WARM_S if again else 0.0

    def do_plain(self, first, count):
        self.outputs = [torch.empty_like(self.slots[first][0]) for _ in range(count)]
        for at, output in enumerate(self.outputs):
            self.subject(output, self.slots[first + at][0])
        return {"pointers": [[output.data_ptr()] for output in self.outputs]}

    def do_plain_outputs(self):
        return {"outputs": {"value": self.outputs}}

    def do_spans(self, **_):
        return {"span_us": 0.0, "kernels": []}


def honest(output, x):
    NOW.s += CALL_S
    torch.mul(x, 2.0, out=output)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**31))
    monkeypatch.setattr(clock_module, "ROUND_S", 16 * CALL_S)
    monkeypatch.setattr(clock_module, "reset_persisting_lines", lambda: None)
    monkeypatch.setattr(clock_module, "time", types.SimpleNamespace(perf_counter=lambda: NOW.s))


def doubled(arguments, output, _written=()):
    assert torch.equal(output, arguments[0] * 2.0)


def timed(runner, verify=doubled, cache_bytes=2**20, in_detail=False):
    x = torch.rand(64)
    clock = RoundClock(runner, None, [x], 256, cache_bytes, random.Random(1), verify, in_detail=in_detail)
    clock.prepare()
    found = clock.run()
    clock.settle()
    found = clock.profiled(found) if in_detail else found
    clock.close()
    return found


def test_a_round_is_timed_and_its_answers_are_checked():
    checked = []

    def verify(arguments, output, _written):
        doubled(arguments, output)
        checked.append(output)

    rounds = timed(Runner(honest), verify)
    assert rounds.slots in (14, 16)  # the probe takes some of a round's own cost for a call's
    assert rounds.busy_us == pytest.approx([1e6 * CALL_S] * 10)
    assert len(rounds.end_to_end_us) == 3
    assert len(checked) >= 4
    assert not rounds.cold


def test_a_call_is_timed_with_cold_and_with_warm_caches():
    rounds = timed(Runner(honest), in_detail=True)
    assert not rounds.cold
    assert rounds.busy_us == pytest.approx([1e6 * CALL_S] * 10)
    assert rounds.caches.cold_us == pytest.approx(1e6 * (CALL_S + COLD_S))
    assert rounds.caches.warm_us == pytest.approx(1e6 * (CALL_S - WARM_S))


def test_a_candidate_is_profiled_after_all_that_is_timed():
    runner = Runner(honest)
    found = timed(runner, in_detail=True)
    assert found.profiled == found.slots // 2
    assert "replay" not in runner.asked[runner.asked.index("spans") :]


def test_what_cannot_be_captured_is_profiled_over_all_its_calls():
    found = timed(Runner(honest, captures=False), in_detail=True)
    assert found.profiled == found.slots


@pytest.mark.parametrize("after", [8, 12, 16, 20, 24])
def test_what_stops_computing_before_the_last_repeats_is_met(after):
    replays = []

    class Counts(Runner):
        def do_replay(self, graphs):
            replays.append(graphs)
            return super().do_replay(graphs)

    def subject(output, x):
        NOW.s += CALL_S
        torch.mul(x, 2.0 if len(replays) < after else 3.0, out=output)

    for seed in range(30):
        replays.clear()
        clock = RoundClock(Counts(subject), None, [torch.rand(64)], 256, 2**20, random.Random(seed), doubled)
        clock.prepare()
        clock.run()
        with pytest.raises(AssertionError):
            clock.settle()


@pytest.mark.parametrize(("output_bytes", "kept"), [(256, 15), (2**29, 5)])
def test_answers_of_all_repeats_are_compared_unless_they_are_large(output_bytes, kept):
    found = []
    clock = RoundClock(Runner(honest), None, [torch.rand(64)], output_bytes, 2**20, random.Random(1), lambda *asked: found.append(asked))
    clock.prepare()
    clock.run()
    clock.settle()
    assert kept <= len(found) <= 2 * kept, "of each, captured or plain, its last answer and a drawn one, which may be the same"


def test_answers_too_large_to_be_kept_are_compared_at_once():
    found = []
    clock = RoundClock(Runner(honest), None, [torch.rand(64)], 2**32, 2**20, random.Random(1), lambda *asked: found.append(asked))
    clock.prepare()
    clock.run()
    number = len(found)
    assert number == 5, "four captured rounds and a plain one, a slot of each"
    clock.settle()
    assert len(found) == number


def test_slots_that_exceed_the_caches_are_cold_and_never_warm():
    rounds = timed(Runner(honest), cache_bytes=300, in_detail=True)
    assert rounds.cold
    assert (rounds.caches.cold_us, rounds.caches.warm_us) == (pytest.approx(1e6 * CALL_S), None)


def test_a_runner_that_flushes_less_before_calls_does_not_make_cold_faster_than_it_is():
    class Skips(Runner):
        def extra_s(self, again, flushed):
            return -FLUSH_S if flushed else 0.0

    assert timed(Skips(honest), in_detail=True).caches.cold_us == pytest.approx(1e6 * CALL_S)


def test_second_calls_that_are_left_out_are_found_out():
    class Skips(Runner):
        def do_replay(self, graphs):
            if any(self.graphs[number][2] == 2 for number in graphs):
                return {}
            return super().do_replay(graphs)

    with pytest.raises(StopError) as error:
        timed(Skips(honest), in_detail=True)
    assert error.value.finding.cause == "FORGED_RESULT"


def test_what_cannot_be_captured_is_launched_plainly():
    rounds = timed(Runner(honest, captures=False))
    assert (rounds.busy_us, rounds.not_captured) == ((), "it asks the host")
    assert rounds.samples_us == rounds.end_to_end_us
    assert len(rounds.end_to_end_us) == 10


def test_a_late_answer_to_short_rounds_gains_nothing():
    class Late(Runner):
        def do_replay(self, graphs):
            if len(graphs) == 1:
                NOW.s += 8 * CALL_S
            return super().do_replay(graphs)

    rounds = timed(Late(honest))
    most_gained_us = 1e6 * (clock_module.ROUND_COST_S - COST_S) / rounds.slots
    assert min(rounds.busy_us) == pytest.approx(1e6 * CALL_S - most_gained_us)


def test_work_that_is_said_to_be_done_before_it_is_is_refused():
    class Early(Runner):
        def do_replay(self, graphs):
            return {}

    with pytest.raises(StopError) as error:
        timed(Early(honest))
    assert (error.value.finding.verdict, error.value.finding.cause) == ("REJECTED", "FORGED_RESULT")


def test_an_answer_to_what_the_candidate_put_into_a_slot_is_found_out():
    def cheats(output, x):
        x.fill_(1.0)
        output.fill_(2.0)

    with pytest.raises(StopError) as error:
        timed(Runner(cheats))
    assert (error.value.finding.verdict, error.value.finding.cause) == ("FAILED", "MEMORY")


def test_returning_an_input_is_no_cheat():
    class Identity(Runner):
        def do_capture(self, first, count, times, flush_bytes):
            outputs = [slot[0] for slot in self.slots[first : first + count]]
            self.graphs.append((first, outputs, times, flush_bytes))
            return {"captured": True, "nodes": 3 * count * times * self.tells_nodes, "outputs": {"value": outputs}}

    def same(arguments, output, _written):
        assert torch.equal(output, arguments[0])

    timed(Identity(lambda output, x: output.copy_(x)), same)


class InPlace(Runner):
    """Its subject writes to its argument and returns nothing."""

    def do_capture(self, first, count, times, flush_bytes):
        self.graphs.append((first, [self.slots[first + at][0] for at in range(count)], times, flush_bytes))
        return {"captured": True, "nodes": count, "outputs": {"value": [None] * count}}

    def do_plain(self, first, count):
        self.outputs = [None] * count
        for at in range(count):
            self.subject(self.slots[first + at][0], self.slots[first + at][0])
        return {"pointers": [[] for _ in range(count)]}


@pytest.mark.parametrize("right", [True, False])
def test_what_a_call_writes_to_its_arguments_is_checked_in_rounds_too(right):
    def verify(arguments, output, written):
        assert output is None
        if not torch.equal(written[0], arguments[0] * 2.0):
            raise AssertionError("wrong")

    def subject(output, x):
        torch.mul(x, 2.0 if right else 3.0, out=output)

    clock = RoundClock(InPlace(subject), None, [torch.rand(64)], 256, 2**20, random.Random(1), verify, changed=(0,), in_detail=True)
    if not right:
        clock.prepare()
        clock.run()
        with pytest.raises(AssertionError, match="wrong"):
            clock.settle()
        return
    clock.prepare()
    assert clock.run().caches.warm_us is None


def test_a_parameter_that_is_returned_is_not_poisoned_where_a_round_has_one_slot():
    parameter, own = torch.ones(4), [torch.zeros(4), torch.zeros(4)]
    outputs = [(parameter, output) for output in own]
    Regions(outputs[:1], beside=outputs[1:]).poison()
    assert parameter.tolist() == [1.0] * 4
    assert own[0].abs().sum() > 0


def test_the_same_output_twice_is_poisoned():
    output = torch.zeros(8)
    Regions([(output, output)]).poison()
    assert output.abs().sum() > 0


def test_no_more_slots_are_probed_than_memory_allows(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2 * 768 / 0.3 + 1, 2**31))
    asked = []

    class Counts(Runner):
        def do_open_rounds(self, slots):
            asked.append(len(slots["value"]))
            return super().do_open_rounds(slots)

    timed(Counts(honest))
    assert asked == [2, 2]


def test_outputs_that_lie_elsewhere_than_was_said_are_refused():
    class Moves(Runner):
        def do_plain_outputs(self):
            return {"outputs": {"value": [output.clone() for output in reversed(self.outputs)]}}

    rows = [torch.zeros(8) for _ in range(4)]  # each a storage of its own, as views of a runner's memory are
    regions, one_allocation = Regions(rows), lambda _address: 0
    assert regions.lie_as([[row.data_ptr() + 4096] for row in rows], one_allocation)
    assert not regions.lie_as([[row.data_ptr() + 4096 * at] for at, row in enumerate(rows)], one_allocation)
    assert not regions.lie_as([["x"] for _ in rows], one_allocation)


def slots(*tensors):
    made = Slots(Runner(honest), list(tensors), random.Random(2))
    made.allocate(4)
    return made


def test_slots_differ_from_each_other_and_from_round_to_round():
    made = slots(torch.rand(32), torch.arange(4))
    first = [made.given(at).arguments() for at in range(4)]
    made.fill(4)
    again = [made.given(at).arguments() for at in range(4)]
    values = [item[0] for item in first + again]
    assert not any(torch.equal(left, right) for at, left in enumerate(values) for right in values[at + 1 :])
    assert all(torch.equal(item[1], torch.arange(4)) for item in first + again)


def test_integers_of_slots_come_from_all_draws_of_the_inputs():
    draws = [[torch.full((8,), float(at + 1)), torch.full((4,), at)] for at in range(3)]
    made = Slots(Runner(honest), draws[0], random.Random(2), others=draws[1:])
    made.allocate(16)
    found = [made.given(at).arguments() for at in range(16)]
    assert {int(item[1][0]) for item in found} == {0, 1, 2}
    assert all((item[1] == item[1][0]).all() for item in found)
    assert all((item[0] > 0.75 * item[1][0]).all() and (item[0] <= item[1][0] + 1.0).all() for item in found), "both of one draw"
    before = made.given(3)
    kept = before.arguments()
    assert all(made.untouched(at) for at in range(16))
    made.fill(16)
    assert all(torch.equal(left, right) for left, right in zip(before.arguments(), kept, strict=True)), "what was given stays known"


def test_a_memo_of_integers_is_met_in_a_round():
    draws = [[torch.randint(0, 100, (64,))] for _ in range(4)]

    def memo(output, x):
        NOW.s += CALL_S
        output.copy_(2 * draws[0][0])

    clock = RoundClock(Runner(memo), None, draws[0], 256, 2**20, random.Random(1), doubled, others=draws[1:])
    clock.prepare()
    clock.run()
    with pytest.raises(AssertionError):
        clock.settle()


@pytest.mark.parametrize(("output", "told"), [(torch.zeros(64, dtype=torch.int64), True), (torch.zeros(4, dtype=torch.int32), False)])
def test_integers_that_are_not_written_are_no_fresh_answer(output, told):
    regions = Regions([output])
    regions.poison()
    assert regions.last_is_fresh() is not told, "a few may be right by chance"
    output.zero_()
    assert regions.last_is_fresh()


def test_even_slots_keep_what_holds_between_elements():
    x = torch.rand(5, 5)
    made = Slots(Runner(honest), [x + x.t() + 10 * torch.eye(5)], random.Random(2), even=True)
    made.allocate(4)
    (first,), (second,) = made.given(0).arguments(), made.given(1).arguments()
    assert torch.equal(first, first.t())
    assert torch.linalg.cholesky(first).isfinite().all()
    assert not torch.equal(first, second)
    assert made.untouched(0)


def test_slots_keep_signs_zeros_and_bounds():
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, float("inf")])
    made = slots(x)
    for at in range(4):
        (found,) = made.given(at).arguments()
        assert torch.equal(found.sign(), x.sign())
        assert (found.abs() <= x.abs()).all()


def test_factors_of_large_inputs_are_used_again_from_another_window(monkeypatch):
    monkeypatch.setattr(slots_module, "_TABLE", 16)
    x = torch.ones(40)
    made = slots(x)
    (found,) = made.given(1).arguments()
    assert made.untouched(1)
    parts = found.split(16)
    assert not torch.equal(parts[0], parts[1])
    assert ((found >= 0.75) & (found <= 1.0)).all()


@pytest.mark.parametrize("x", [torch.rand(3, 4).t(), torch.rand(3, 1).expand(3, 4), torch.rand(6)[1:], torch.rand(())])
def test_slots_follow_whatever_strides_the_inputs_have(x):
    made = slots(x)
    (found,) = made.given(2).arguments()
    assert found.shape == x.shape
    assert found.stride() == x.stride()
    assert torch.equal(found == 0, x == 0)


def test_a_slot_that_was_written_to_is_noticed():
    made = slots(torch.rand(32))
    assert made.untouched(1)
    made._views[1][0][5] += 1.0
    assert not made.untouched(1)


def test_memory_that_two_slots_share_is_refused():
    class Aliases(Runner):
        def do_allocate(self, tree):
            made = super().do_allocate(tree)["tree"]["value"]
            return {"tree": {"value": [made[0]] * len(made)}}

    with pytest.raises(MalformedReplyError, match="same memory"):
        Slots(Aliases(honest), [torch.rand(8)], random.Random(3)).allocate(4)


def test_memory_of_another_form_is_refused():
    class Shrinks(Runner):
        def do_allocate(self, tree):
            made = super().do_allocate(tree)["tree"]["value"]
            return {"tree": {"value": map_tensors(made, lambda tensor: tensor[:4])}}

    with pytest.raises(MalformedReplyError, match="another form"):
        Slots(Shrinks(honest), [torch.rand(8)], random.Random(3)).allocate(4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_every_kind_of_output_is_poisoned_and_read(dtype):
    outputs = [torch.zeros(8).to(dtype) for _ in range(2)]
    before = [output.clone() for output in outputs]
    regions = Regions(outputs)
    regions.poison()
    assert not all(torch.equal(left.view(torch.uint8), right.view(torch.uint8)) for left, right in zip(outputs, before, strict=True))
    if dtype is not torch.bool:
        assert not regions.last_is_fresh()
        outputs[-1].view(torch.uint8).zero_()
    assert regions.last_is_fresh()


def test_what_every_slot_returns_is_not_poisoned():
    parameter, own = torch.ones(4), [torch.zeros(4), torch.zeros(4)]
    regions = Regions([(parameter, output) for output in own])
    regions.poison()
    assert parameter.tolist() == [1.0] * 4
    assert all(output.abs().sum() > 0 for output in own)


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"kernels": None},
        {"kernels": [], "span_us": float("nan")},
        {"kernels": [], "span_us": -1.0},
        {"kernels": [], "span_us": "1"},
        {"kernels": [{"name": "k", "count": True, "total_us": 1.0}], "span_us": 1.0},
        {"kernels": [{"name": "k", "count": 1, "total_us": float("inf")}], "span_us": 1.0},
        {"kernels": [{"name": "k"}], "span_us": 1.0},
    ],
)
def test_a_malformed_profile_is_refused(reply):
    with pytest.raises(MalformedReplyError):
        parsed_profile(reply, 4)


def test_a_profile_tells_the_span_of_one_call():
    assert parsed_profile({"kernels": [{"name": "k", "count": 4, "total_us": 8.0}], "span_us": 10}, 4) == (2.5, (("k", 4, 8.0),))


def looked(runner, bar, output_bytes=256, found=None):
    verify = doubled if found is None else lambda *asked: found.append(asked)
    clock = RoundClock(runner, None, [torch.rand(64)], output_bytes, 2**20, random.Random(1), verify, in_detail=True)
    clock.prepare()
    rounds = clock.run(bar)
    clock.settle()
    return rounds


def test_a_candidate_far_behind_the_best_baseline_gets_a_first_look_only():
    found = []
    rounds = looked(Runner(honest), Bar(1e6 * CALL_S / 3.5, 1.0), found=found)
    assert rounds.first_look
    assert rounds.busy_us == pytest.approx([1e6 * CALL_S] * 3)
    assert len(rounds.end_to_end_us) == 3
    assert rounds.caches.cold_us is None
    assert len(found) >= 8, "as many answers are compared as there are repeats, of graphs and of plain calls"


def test_a_candidate_that_is_not_that_far_behind_is_measured_in_full():
    rounds = looked(Runner(honest), Bar(1e6 * CALL_S / 2.5, 1.0))
    assert not rounds.first_look
    assert len(rounds.busy_us) == 10
    assert rounds.caches.cold_us is not None


def test_a_first_look_at_large_answers_compares_as_many_as_ever():
    whole, first = [], []
    looked(Runner(honest), Bar(), 2**29, whole)
    assert looked(Runner(honest), Bar(1.0, 1.0), 2**29, first).first_look
    assert len(first) >= 5
    assert abs(len(first) - len(whole)) <= 3, "of each checked repeat its last answer and a drawn one, which may be the same"


def test_a_first_look_still_meets_wrong_answers():
    def wrong(output, x):
        NOW.s += CALL_S
        torch.mul(x, 3.0, out=output)

    with pytest.raises(AssertionError):
        looked(Runner(wrong), Bar(1.0, 1.0))
