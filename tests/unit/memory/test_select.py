import dataclasses
import random

import pytest
from adaexplore_memory.check import check as check_lines
from adaexplore_memory.check import lines_of
from adaexplore_memory.domain import Counters, Environment, Evidence, Pattern, Proof, Scope, Skill, SkillKind, SkillState
from adaexplore_memory.index import SkillIndex, select
from adaexplore_memory.select import Query, estimate_tokens, in_scope

HERE = Environment("3.7.1", "sm_90")
TANH = Skill(
    "skills/tanh",
    SkillKind.PITFALL,
    SkillState.ACTIVE,
    "You cannot use `tl.math.tanh`.",
    patterns=(Pattern("triton.language.math.tanh"),),
)
BREAK = Skill("skills/break", SkillKind.PITFALL, SkillState.ACTIVE, "You cannot use `break`.", patterns=(Pattern(statement_kind="Break"),))
POW = dataclasses.replace(TANH, name="skills/pow", rule="You cannot use `tl.math.pow`.", patterns=(Pattern("triton.language.math.pow"),))
SOURCE = "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x):\n    y = tl.math.tanh(x)\n"


def check(source, skills, environment):
    return check_lines(lines_of(source), skills, environment)


def names(skills, operators, **changes):
    return [chosen.skill.name for chosen in select(skills, Query(frozenset(operators), HERE, **changes))]


@pytest.mark.parametrize("operator", ["tanh", "gelu_tanh", "gelu", "mish"])
def test_a_rule_about_a_function_comes_first_where_the_task_needs_it(operator):
    assert names([POW, BREAK, TANH], [operator, "add"])[0] == "skills/tanh"


def test_rules_of_the_language_come_before_names_that_the_task_does_not_need():
    assert names([TANH, BREAK], ["softmax"]) == ["skills/break", "skills/tanh"]


def test_the_reason_names_the_operator():
    assert "gelu" in select([TANH], Query(frozenset({"gelu_tanh"}), HERE))[0].reason


def test_the_budget_is_kept_and_a_shorter_skill_may_still_fit():
    long = dataclasses.replace(TANH, name="skills/long", instead="x" * 400)
    left = estimate_tokens(BREAK)
    assert names([long, BREAK], ["tanh"], token_budget=left) == ["skills/break"]
    assert names([long, BREAK], ["tanh"], token_budget=left - 1) == []


def test_a_heeded_rule_comes_before_an_ignored_one():
    heeded = dataclasses.replace(BREAK, name="skills/zz", rule="You cannot use `try`.xx", counters=Counters(9, 0, 9))
    ignored = dataclasses.replace(BREAK, name="skills/aa", counters=Counters(9, 9, 0))
    assert names([ignored, heeded], []) == ["skills/zz", "skills/aa"]


def test_a_proven_rule_comes_before_a_counted_one():
    proven = dataclasses.replace(BREAK, name="skills/zz", evidence=Evidence(proof=Proof(True, 0)))
    assert names([BREAK, proven], []) == ["skills/zz", "skills/break"]


@pytest.mark.parametrize(
    ("scope", "environment", "holds"),
    [
        (Scope(), HERE, True),
        (Scope("==3.7.*"), HERE, True),
        (Scope("==3.6.*"), HERE, False),
        (Scope(">=3.0"), Environment("3.8.0.dev1", "sm_90"), True),
        (Scope("==3.7.*"), Environment("3.7.1+gitabc", "sm_90"), True),
        (Scope(backend="cuda"), HERE, True),
        (Scope(backend="hip"), HERE, False),
        (Scope(backend="hip"), Environment("3.7.1", "gfx942"), True),
        (Scope(architectures=("sm_80",)), HERE, False),
        (Scope(architectures=("sm_80", "sm_90")), HERE, True),
    ],
)
def test_scope_decides_where_a_skill_holds(scope, environment, holds):
    assert in_scope(scope, environment) is holds
    assert in_scope(scope, environment, certain=True) is holds


def test_an_unknown_version_shows_a_rule_but_accuses_nobody():
    skill = dataclasses.replace(TANH, scope=Scope("==3.7.*"))
    assert in_scope(skill.scope, Environment())
    assert check(SOURCE, [skill], Environment()) == ()


def test_families_keep_a_skill_to_its_tasks():
    skill = dataclasses.replace(BREAK, scope=Scope(operator_families=("softmax",)))
    assert names([skill], ["log_softmax"]) == ["skills/break"]
    assert names([skill], ["mm"]) == []


def test_a_source_that_breaks_a_rule_is_shown_its_line():
    (violation,) = check(SOURCE, [TANH, BREAK, POW], HERE)
    assert (violation.skill.name, violation.line, violation.excerpt) == ("skills/tanh", 5, "y = tl.math.tanh(x)")


@pytest.mark.parametrize("state", [SkillState.CANDIDATE, SkillState.RETIRED])
def test_only_active_rules_accuse(state):
    assert check(SOURCE, [dataclasses.replace(TANH, state=state)], HERE) == ()


def test_a_technique_is_no_rule_to_break():
    assert check(SOURCE, [dataclasses.replace(TANH, kind=SkillKind.TECHNIQUE)], HERE) == ()


def test_what_is_not_python_breaks_nothing():
    assert lines_of("def (:") is None


def test_an_index_that_was_changed_chooses_as_one_that_was_made_anew():
    draw = random.Random(3)
    index, skills = SkillIndex(), {}
    for _ in range(600):
        skill = _drawn(draw)
        if draw.random() < 0.2:
            skills.pop(skill.name, None)
            index.put(skill.name, None)
        else:
            skills[skill.name] = skill
            index.put(skill.name, skill)
    for operators in ([], ["gelu"], ["softmax", "layer_norm"]):
        for structural in (True, False):
            query = Query(frozenset(operators), HERE, structural, 400)
            chosen = [selected.skill.name for selected in select(skills.values(), query)]
            assert index.chosen(query) == chosen
            assert len(chosen) == len(set(chosen)) > 3
            assert all(in_scope(skills[name].scope, HERE) for name in chosen)
    patterns = [Pattern("triton.language.math.tanh"), Pattern(statement_kind="Break")]
    expected = sorted(name for name, skill in skills.items() if {*skill.patterns} & {*patterns} and in_scope(skill.scope, HERE))
    assert index.breaking(patterns, HERE) == expected


def test_a_search_for_what_still_fits_ends():
    long = [dataclasses.replace(BREAK, name=f"skills/{number:04}", instead="x" * 400) for number in range(300)]
    fits = estimate_tokens(BREAK)
    assert names([*long[:150], BREAK], [], token_budget=fits) == ["skills/break"]
    general = dataclasses.replace(TANH, rule=BREAK.rule)  # of the least relevance here
    assert names([*long, general], ["softmax"], token_budget=fits) == []


def _drawn(draw):
    name = draw.choice(["tanh", "erf", "exp", "pow", "cos"])
    patterns = draw.choice([(Pattern(f"triton.language.math.{name}"),), (Pattern(statement_kind="Break"),), ()])
    scope = Scope(draw.choice(["", "==3.7.*", "==3.6.*"]), operator_families=draw.choice([(), ("softmax",), ("matmul",)]))
    kind = draw.choice([SkillKind.PITFALL, SkillKind.TECHNIQUE])
    counters = Counters(9, draw.randrange(5), draw.randrange(5))
    return Skill(
        f"skills/{draw.randrange(80)}", kind, SkillState.ACTIVE, f"You cannot use {name}.", "", scope, patterns=patterns, counters=counters
    )
