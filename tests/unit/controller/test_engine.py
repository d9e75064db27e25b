"""The loop: what a search does step by step, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from adaexplore_controller.domain import (
    Candidate,
    Diagnosis,
    Evaluation,
    Kernel,
    Outcome,
    SearchState,
    StopReason,
    TaskFacts,
    Usage,
    Verdict,
)
from adaexplore_controller.events import NodeRecorded, SkillLearnt, SkillRespected, StateChanged, StepProgress, StepStarted
from adaexplore_controller.ports import Compilation
from adaexplore_controller.tree import ROOT_STEP, Move
from unit.controller.fakes import FORBIDDEN, MISSING, RULE, World, comparable, digest_of, kernel

from adaexplore.runtime.errors import (
    InvalidArgumentError,
)


async def test_a_search_makes_its_steps_and_keeps_the_fastest_passed_node(world: World) -> None:
    search = await world.run(max_steps=25)
    nodes = await world.history.nodes("s")
    assert (search.progress.state, search.progress.stop_reason, search.progress.steps) == (SearchState.SUCCEEDED, StopReason.STEPS, 25)
    assert [node.step for node in nodes] == list(range(1, 26))
    best = max((n for n in nodes if n.passed), key=lambda n: (n.evaluation.speedup, -n.step))
    assert (search.progress.best_step, search.progress.best_speedup) == (best.step, best.evaluation.speedup)
    assert search.progress.end_time is not None


async def test_events_tell_the_whole_story_without_gaps(world: World) -> None:
    search = await world.run(max_steps=25)
    events = await world.history.events("s", 0, 10_000)
    assert [event.sequence for event in events] == list(range(1, search.last_sequence + 1))
    bodies = [event.body for event in events]
    assert isinstance(bodies[0], StateChanged)
    assert bodies[-1] == StateChanged(search.progress)
    assert [b.step for b in bodies if isinstance(b, StepStarted)] == list(range(1, 26))
    recorded = [b for b in bodies if isinstance(b, NodeRecorded)]
    assert [b.step for b in recorded] == list(range(1, 26))
    assert [b.step for b in recorded if b.best][-1] == search.progress.best_step


async def test_the_same_seed_gives_the_same_tree_and_another_seed_another(tmp_path: Path) -> None:
    trees = []
    for index, seed in enumerate((13, 13, 8)):
        world = World(tmp_path / f"{index}.sqlite3")
        await world.run(seed=seed)
        trees.append(comparable(await world.history.nodes("s")))
        await world.database.close()
    assert trees[0] == trees[1] != trees[2]


async def test_usage_counts_every_attempt_also_those_that_gave_no_kernel(world: World) -> None:
    search = await world.run(max_steps=25)
    assert search.progress.usage.calls == sum(reply.usage.calls for reply in world.generator.replies.values())
    assert search.progress.usage.cost_micro_usd == sum(reply.usage.cost_micro_usd or 0 for reply in world.generator.replies.values())


async def test_a_generation_is_shown_what_the_policy_selects_with_recipes_and_feedback(world: World) -> None:
    await world.run(max_steps=25)
    nodes = {node.step: node for node in await world.history.nodes("s")}
    local = [request for request in world.generator.requests if request.move is Move.LOCAL]
    assert local
    for request in local:
        step = int(request.request_id.split("/")[3])
        shown = [(k.kernel, k.recipe) for k in request.context]
        node = nodes[step]
        if node.move is Move.LOCAL:
            assert shown == [(nodes[s].candidate.kernel, nodes[s].candidate.recipe) for s in node.context_steps]
            assert request.context[-1].evaluation == nodes[node.parent_step].evaluation
        assert request.pool == ()
    assert all(request.context == () for request in world.generator.requests if request.move is Move.STRUCTURAL)


async def test_seed_kernels_are_the_first_steps_and_children_of_the_root(world: World) -> None:
    seeds = (Kernel("# mine"), Kernel(f"# {FORBIDDEN}"))
    await world.run(max_steps=4, seed_kernels=seeds)
    nodes = await world.history.nodes("s")
    assert [(node.parent_step, node.move, node.candidate.kernel) for node in nodes[:2]] == [(ROOT_STEP, Move.STRUCTURAL, s) for s in seeds]
    assert nodes[0].digest == digest_of("# mine")
    assert {r.request_id.split("/")[3] for r in world.generator.requests} == {"3", "4"}
    assert nodes[0].digest in world.generator.requests[0].known_digests


async def test_a_step_without_a_kernel_is_a_node_that_earns_nothing_and_is_never_evaluated(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [Candidate(Outcome.TRUNCATED, Kernel("# half"), message="cut")]
    await world.run(max_steps=1)
    (node,) = await world.history.nodes("s")
    assert (node.candidate.outcome, node.evaluation, node.reward) == (Outcome.TRUNCATED, None, 0.0)
    assert world.evaluator.evaluated == {}


async def test_an_invalid_task_ends_the_search_before_anything_is_generated(world: World) -> None:
    world.evaluator.facts = TaskFacts(b"f", False, "task", message="task.py:3: the mean of a group norm is always 0")
    search = await world.run()
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.FAILED, StopReason.TASK_INVALID)
    assert search.progress.error_message == "task.py:3: the mean of a group norm is always 0"
    assert world.generator.requests == []


async def test_a_task_that_turns_out_to_be_invalid_ends_the_search_without_a_node(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
    world.evaluator.script["steps/1/evaluation"] = [Evaluation(b"e", Verdict.TASK_INVALID, "DEGENERATE", message="zeros pass")]
    search = await world.run()
    assert (search.progress.stop_reason, search.progress.error_message) == (StopReason.TASK_INVALID, "zeros pass")
    assert await world.history.nodes("s") == ()


class TestRules:
    """Failures become rules, and rules are respected."""

    async def test_a_rule_is_proven_before_it_is_shown_and_then_learnt(self, world: World) -> None:
        await world.run(max_steps=25)
        assert world.memory.proof is not None
        assert (world.memory.proof.reproducer_failed, world.memory.proof.repair_index) == (True, 1)
        assert world.evaluator.compiled == ["reproducer", "repair 0", "repair 1"]
        learnt = [body for body in await world.bodies() if isinstance(body, SkillLearnt)]
        assert [(body.skill.name, body.skill.active) for body in learnt] == [("skills/1", True)]

    async def test_an_active_rule_is_shown_and_its_effect_is_recorded(self, world: World) -> None:
        await world.run(max_steps=25)
        nodes = await world.history.nodes("s")
        shown = [node for node in nodes if node.shown_skills]
        assert shown
        assert {f"searches/s/steps/{node.step}/outcome" for node in shown} == set(world.memory.outcomes)
        avoided = [body for body in await world.bodies() if isinstance(body, SkillRespected) and not body.by_check]
        assert avoided
        assert {body.rule for body in avoided} == {RULE}

    async def test_a_source_that_breaks_a_rule_is_sent_back_within_the_step(self, world: World) -> None:
        await world.run(max_steps=25)
        sent_back = [body for body in await world.bodies() if isinstance(body, SkillRespected) and body.by_check]
        assert sent_back
        again = [request for request in world.generator.requests if request.violations]
        assert {violation.rule for request in again for violation in request.violations} == {RULE}
        assert all(request.request_id.split("/")[3] in {str(body.step) for body in sent_back} for request in again)

    async def test_a_source_is_sent_back_at_most_twice_and_then_evaluated(self, world: World) -> None:
        stubborn = kernel(f"# {FORBIDDEN}")
        world.generator.script = {f"steps/2/attempts/{attempt}": [stubborn] for attempt in (1, 2, 3)}
        world.generator.script["steps/1/attempts/1"] = [kernel(f"# {FORBIDDEN} first")]
        await world.run(max_steps=2)
        node = (await world.history.nodes("s"))[1]
        assert node.evaluation is not None
        assert node.evaluation.cause == "COMPILE"
        requests = [r for r in world.generator.requests if r.request_id.startswith("searches/s/steps/2/")]
        assert [len(request.violations) for request in requests] == [0, 1, 2]
        assert world.evaluator.evaluated["steps/2/evaluation"] == 1

    async def test_what_no_lesson_can_come_from_is_never_recorded_as_a_failure(self, world: World) -> None:
        world.generator.script = {f"steps/{step}/attempts/1": [kernel(f"# {step}")] for step in (1, 2, 3)}
        world.evaluator.script = {
            "steps/1/evaluation": [Evaluation(b"e", Verdict.INCONCLUSIVE, "NOT_INTERPRETABLE", "CHECK")],
            "steps/2/evaluation": [Evaluation(b"e", Verdict.REJECTED, "REPLAY", "CHECK")],
            "steps/3/evaluation": [Evaluation(b"e", Verdict.PASSED, "", "TIMING")],
        }
        await world.run(max_steps=3)
        assert world.memory.failures == {}
        assert [node.reward for node in await world.history.nodes("s")] == [0.05, 0.05, 0.4]

    async def test_without_memory_nothing_is_asked_of_it(self, world: World) -> None:
        search = await world.run(max_steps=25, memory_off=True)
        assert search.progress.steps == 25
        assert (world.memory.failures, world.memory.outcomes, world.memory.skill) == ({}, {}, None)
        stages = {body.stage for body in await world.bodies() if isinstance(body, StepProgress)}
        assert stages == {"generating", "evaluating"}

    async def test_a_rule_whose_reproducer_compiles_is_refuted_and_never_announced(self, world: World) -> None:
        world.evaluator.reproduced = Compilation(True, "", "3.7.1", "sm_90")
        await world.run(max_steps=25)
        assert world.memory.proof is not None
        assert not world.memory.proof.reproducer_failed
        assert not [body for body in await world.bodies() if isinstance(body, SkillLearnt)]

    @pytest.mark.parametrize("cause", ["TIMEOUT", "FAULT", "SYNTAX"])
    async def test_a_reproducer_that_fails_for_another_reason_proves_nothing(self, world: World, cause: str) -> None:
        world.evaluator.reproduced = Compilation(False, cause, "3.7.1", "sm_90", MISSING)
        world.generator.script["steps/1/attempts/1"] = [kernel(f"# {FORBIDDEN}")]
        await world.run(max_steps=1)
        assert world.memory.proof is None
        learnt = [body for body in await world.bodies() if isinstance(body, SkillLearnt)]
        assert [body.skill.active for body in learnt] == [False]

    async def test_a_reproducer_that_misses_another_name_than_the_candidate_proves_nothing(self, world: World) -> None:
        other = Diagnosis("AttributeError", "module 'triton.language' has no attribute 'libdevice'")
        world.evaluator.reproduced = Compilation(False, "COMPILE", "3.7.1", "sm_90", other)
        world.generator.script["steps/1/attempts/1"] = [kernel(f"# {FORBIDDEN}")]
        await world.run(max_steps=1)
        assert world.memory.proof is None
        assert world.evaluator.compiled == ["reproducer"]

    async def test_a_rule_that_changes_under_the_proof_is_read_again(self, world: World) -> None:
        world.memory.conflicts = 2
        await world.run(max_steps=25)
        assert world.memory.skill is not None
        assert world.memory.skill.active

    async def test_a_reproducer_that_cannot_be_compiled_at_all_leaves_the_rule_unproven_and_the_search_whole(self, world: World) -> None:
        async def refuse(*_: object) -> None:
            raise InvalidArgumentError("no function of that name", reason="SNIPPET_INVALID")

        world.evaluator.compile_reproducer = refuse  # type: ignore[method-assign]
        search = await world.run(max_steps=25)
        assert search.progress.state is SearchState.SUCCEEDED
        assert world.memory.proof is None
        learnt = [body for body in await world.bodies() if isinstance(body, SkillLearnt)]
        assert [body.skill.active for body in learnt] == [False]


class TestNothingNew:
    """The generator repeats itself or runs dry."""

    async def test_a_duplicate_is_tried_again_by_the_other_move(self, world: World) -> None:
        world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
        world.generator.script["steps/2/attempts/1"] = [Candidate(Outcome.DUPLICATE)]
        await world.run(max_steps=2)
        moves = [r.move for r in world.generator.requests if "/steps/2/" in r.request_id]
        assert sorted(moves) == [Move.LOCAL, Move.STRUCTURAL]
        assert (await world.history.nodes("s"))[1].move is moves[1]

    async def test_a_duplicate_by_both_moves_is_a_step_that_earns_nothing(self, world: World) -> None:
        world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
        world.generator.script |= {f"steps/2/attempts/{n}": [Candidate(Outcome.DUPLICATE, Kernel("# one"))] for n in (1, 2)}
        search = await world.run(max_steps=2)
        node = (await world.history.nodes("s"))[1]
        assert (node.candidate.outcome, node.reward, node.evaluation) == (Outcome.DUPLICATE, 0.0, None)
        assert search.progress.stop_reason is StopReason.STEPS

    async def test_a_generator_that_is_dry_everywhere_ends_the_search(self, world: World) -> None:
        world.generator.script = {f"steps/{step}/attempts/1": [kernel(f"# {step}")] for step in (1, 2, 3)}
        world.generator.exhausted = frozenset(Move)
        search = await world.run(max_steps=50)
        assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.EXHAUSTED)
        assert search.progress.steps == 3
        requests = [request for request in world.generator.requests if "/steps/4/" in request.request_id]
        tried = {request.context[-1].kernel.source for request in requests if request.move is Move.LOCAL}
        assert tried == {"# 1", "# 2", "# 3"}
        assert await world.store.steps("s") == ()

    async def test_local_edits_go_on_elsewhere_when_rewrites_are_exhausted(self, world: World) -> None:
        world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
        world.generator.exhausted = frozenset({Move.STRUCTURAL})
        search = await world.run(max_steps=20)
        nodes = await world.history.nodes("s")
        assert (search.progress.stop_reason, len(nodes)) == (StopReason.STEPS, 20)
        assert {node.move for node in nodes[1:]} == {Move.LOCAL}


def test_the_cost_of_a_sum_is_unknown_as_soon_as_one_part_is() -> None:
    known, unknown = Usage(1, 0, 1, 0, 1, 5), Usage(1, 0, 1, 0, 1, None)
    assert Usage().plus(known).plus(known).cost_micro_usd == 10
    assert Usage().plus(known).plus(unknown).cost_micro_usd is None
    assert Usage().plus(unknown).plus(known).cost_micro_usd is None
    assert Usage().plus(Usage()) == Usage()
    assert replace(known, calls=3).plus(Usage()).calls == 3
