import dataclasses

import pytest
from adaexplore_memory.distill import distill
from adaexplore_memory.distill.snippets import pointwise
from adaexplore_memory.domain import Evidence, Pattern, Proof, Skill, SkillKind, SkillState
from adaexplore_memory.intake import clean, refusal
from adaexplore_memory.lifecycle import activation_refusal, from_lesson, proof_wanted, supported, violations, with_proof

PROVEN = Proof(True, 0, "3.7.1", "sm_90")


@pytest.fixture
def skill(candidate, failure):
    said = "module 'triton.language.math' has no attribute 'tanh'"
    return from_lesson(distill(failure(candidate("y = tl.math.tanh(x)"), said)), "task-1", 1)


def written(rule="You cannot use `tl.math.tanh`.", **changes):
    return dataclasses.replace(Skill("", SkillKind.PITFALL, SkillState.CANDIDATE, rule), **changes)


def test_a_new_rule_is_a_candidate_that_wants_a_proof(skill):
    assert skill.state is SkillState.CANDIDATE
    assert proof_wanted(skill, "3.7.1")
    assert activation_refusal(skill)


def test_a_proof_activates_and_tells_the_repair_that_compiled(skill):
    active = with_proof(skill, PROVEN)
    assert active.state is SkillState.ACTIVE
    assert active.instead.startswith("Use `libdevice.tanh(x)` after `from triton.language.extra import libdevice`")
    assert not proof_wanted(active, "3.7.1")


def test_a_reproducer_that_compiles_retires_the_rule_with_the_reason(skill):
    retired = with_proof(skill, Proof(False, None, "3.8.0", "sm_90"))
    assert retired.state is SkillState.RETIRED
    assert retired.retire_reason == "its reproducer compiles on Triton 3.8.0 for sm_90"


def test_a_refuted_rule_is_not_revived_by_more_failures(skill):
    retired = with_proof(skill, Proof(False, None, "3.7.1", "sm_90"))
    assert supported(supported(retired, "task-2", 2), "task-3", 3).state is SkillState.RETIRED


def test_a_failing_reproducer_without_a_compiling_repair_proves_nothing_yet(skill):
    shown = with_proof(skill, Proof(True, None, "3.7.1", "sm_90"))
    assert shown.state is SkillState.CANDIDATE
    assert not proof_wanted(shown, "3.7.1")
    assert proof_wanted(shown, "3.8.0")


@pytest.mark.parametrize("provable", [False, True])
def test_a_rule_without_repairs_stays_a_candidate_until_a_second_task_fails_alike(skill, provable):
    alone = dataclasses.replace(skill, evidence=dataclasses.replace(skill.evidence, repairs=()))
    shown = with_proof(alone, Proof(True, None, "3.7.1", "sm_90"))
    assert shown.state is SkillState.CANDIDATE
    assert "second task" in activation_refusal(shown)
    assert supported(shown, "task-1", 2, provable=provable).state is SkillState.CANDIDATE
    assert supported(shown, "task-2", 2, provable=provable).state is SkillState.ACTIVE


def test_two_tasks_and_a_reproducer_that_fails_make_a_rule_active_in_either_order(skill):
    alone = dataclasses.replace(skill, evidence=dataclasses.replace(skill.evidence, repairs=()))
    twice = supported(alone, "task-2", 2, provable=True)
    assert twice.state is SkillState.CANDIDATE
    assert with_proof(twice, Proof(True, None, "3.7.1", "sm_90")).state is SkillState.ACTIVE


def test_the_second_task_activates_and_the_same_task_does_not(skill):
    again = supported(skill, "task-1", 2)
    assert (again.state, again.evidence.failure_count) == (SkillState.CANDIDATE, 2)
    assert supported(again, "task-2", 3).state is SkillState.ACTIVE


def test_failures_whose_text_the_candidate_chose_leave_a_provable_rule_to_its_proof(skill):
    told = supported(skill, "task-2", 2, provable=True)
    assert (told.state, len(told.evidence.task_digests)) == (SkillState.CANDIDATE, 2)
    unprovable = dataclasses.replace(skill, evidence=dataclasses.replace(skill.evidence, reproducer=None))
    assert supported(unprovable, "task-2", 2, provable=True).state is SkillState.ACTIVE


def test_a_reproducer_that_does_not_break_the_pattern_proves_nothing(skill):
    other = dataclasses.replace(skill, patterns=(Pattern("triton.language.other"),))
    assert with_proof(other, PROVEN).state is SkillState.CANDIDATE


def test_a_pattern_that_the_repair_breaks_too_forbids_too_much(skill):
    wide = dataclasses.replace(skill, patterns=(*skill.patterns, Pattern("triton.language.extra.libdevice.tanh")))
    assert "forbid too much" in activation_refusal(dataclasses.replace(wide, evidence=dataclasses.replace(wide.evidence, proof=PROVEN)))


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "Never use tanh.",
        "You cannot " + "x" * 500,
        "You cannot do\nthis.",
        "You cannot use \x1b[31mred.",
        "You cannot use tl.load.",
        "You cannot use `tl.load` in a Triton kernel.",
        "You cannot call triton.language.store(ptr, value).",
        "you cannot use tl.dot",
    ],
)
def test_a_rule_that_is_malformed_or_forbids_every_kernel_is_refused(rule):
    assert violations(written(rule))


@pytest.mark.parametrize(
    "rule", ["You cannot use `tl.math.tanh`.", "You cannot call tl.dot with blocks of 8.", "You cannot use tl.load on a block."]
)
def test_a_narrow_rule_is_accepted(rule):
    assert violations(written(rule)) == ()


def test_snippets_must_define_their_kernel():
    good = pointwise("x + x")
    assert violations(written(evidence=Evidence(reproducer=good, repairs=(good,)))) == ()
    for bad in (
        dataclasses.replace(good, source="def ("),
        dataclasses.replace(good, function_name="other"),
        dataclasses.replace(good, source="x = 1"),
    ):
        assert violations(written(evidence=Evidence(reproducer=bad)))


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "REJECTED", "cause": "TAMPER"},
        {"verdict": "INCONCLUSIVE", "cause": "NOT_INTERPRETABLE"},
        {"verdict": "TASK_INVALID", "cause": "DEGENERATE"},
        {"verdict": "PASSED", "cause": ""},
        {"cause": "TIMEOUT"},
        {"cause": ""},
        {"phase": "TIMING"},
        {"phase": "TASK"},
        {"phase": "QUEUED"},
    ],
)
def test_what_is_not_the_candidates_doing_is_no_lesson(failure, changes):
    assert refusal(failure("x", "y", **changes))


@pytest.mark.parametrize("cause", ["SYNTAX", "CONTRACT", "COMPILE", "LAUNCH", "RUNTIME", "FAULT", "SHAPE", "DTYPE", "NUMERIC", "MEMORY"])
def test_a_failure_of_the_candidates_own_code_is_taken(failure, cause):
    assert refusal(failure("x", "y", cause=cause, phase="CHECK")) == ""


def test_control_characters_and_length_are_taken_out_of_text():
    assert clean("a\x00b\x1b[2Jc\u202ed\ne") == "ab[2Jcd\ne"
    assert len(clean("x" * 2_000_000)) == 4_000
