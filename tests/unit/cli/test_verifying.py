"""Rules are tried anew by an evaluator, and the memory is told what was shown."""

import pytest

from adaexplore.cli.failures import CliError
from adaexplore.cli.verifying import Row, Shown, markdown, remembered, verify
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.memory.v1 import memory_pb2
from adaexplore.runtime.errors import AbortedError
from adaexplore.types.v1 import evaluation_pb2, skill_pb2


class Evaluator:
    """Compiles what its source says it compiles for: `sm_90 gfx942`, or fails with the cause it names."""

    def __init__(self, triton="3.7.1"):
        self.triton = triton

    async def compile_kernel(self, request, timeout_s):
        words = request.snippet.source.split()
        answer = evaluator_pb2.CompileKernelResponse(compiled=request.target in words)
        answer.platform.triton_version, answer.platform.target = self.triton, request.target
        if not answer.compiled:
            answer.cause = evaluation_pb2.CAUSE_TIMEOUT if "slow" in words else evaluation_pb2.CAUSE_COMPILE
        return answer


class Memory:
    """Keeps proofs; the first update of a rule called `busy` comes too late."""

    def __init__(self):
        self.proofs = {}
        self.etags = []

    async def get_skill(self, request, timeout_s):
        return memory_pb2.GetSkillResponse(skill=skill_pb2.Skill(name=request.name, etag="new"))

    async def update_skill(self, request, timeout_s):
        assert request.update_mask.paths == ["evidence.proof"]
        self.etags.append(request.skill.etag)
        if request.skill.name == "busy" and request.skill.etag != "new":
            raise AbortedError("changed", reason="ETAG_MISMATCH")
        proof = self.proofs[request.skill.name] = request.skill.evidence.proof
        state = skill_pb2.SKILL_STATE_ACTIVE if proof.reproducer_failed else skill_pb2.SKILL_STATE_RETIRED
        return memory_pb2.UpdateSkillResponse(skill=skill_pb2.Skill(name=request.skill.name, state=state))


def rule(name, reproducer, *repairs, **scope):
    made = skill_pb2.Skill(
        name=name, rule=f"You cannot {name}.", state=skill_pb2.SKILL_STATE_CANDIDATE, scope=skill_pb2.SkillScope(**scope)
    )
    made.evidence.reproducer.source = reproducer
    made.evidence.repairs.extend(skill_pb2.KernelSnippet(source=repair) for repair in repairs)
    return made


async def shown(*rules, targets=("sm_90",), dry=False):
    memory = Memory()
    return await verify(memory, Evaluator(), rules, targets, dry=dry), memory


async def test_a_reproducer_that_fails_is_proven_with_the_first_repair_that_compiles():
    (row,), memory = await shown(rule("one", "fails", "fails", "sm_90"))
    assert (row.shown, row.repair_index, row.state, row.triton) == (Shown.REPAIRED, 1, "ACTIVE", "3.7.1")
    proof = memory.proofs["one"]
    assert (proof.reproducer_failed, proof.repair_index, proof.triton_version, proof.target) == (True, 1, "3.7.1", "sm_90")
    assert proof.prove_time.seconds


async def test_a_reproducer_that_compiles_everywhere_retires_its_rule():
    rows, memory = await shown(rule("one", "sm_90 gfx942"), targets=("sm_90", "gfx942"))
    assert [(row.shown, row.state) for row in rows] == [(Shown.REFUTED, "RETIRED")] * 2
    assert not memory.proofs["one"].reproducer_failed


async def test_a_rule_that_holds_for_one_target_alone_is_not_retired():
    rows, memory = await shown(rule("one", "sm_90", "gfx942"), targets=("sm_90", "gfx942"))
    assert [row.shown for row in rows] == [Shown.REFUTED, Shown.REPAIRED]
    assert (memory.proofs["one"].reproducer_failed, memory.proofs["one"].target) == (True, "gfx942")


@pytest.mark.parametrize(
    ("source", "scope", "expected"),
    [
        ("slow", {}, Shown.UNCLEAR),
        ("sm_90", {"triton_versions": "==3.6.*"}, Shown.OUT_OF_SCOPE),
        ("sm_90", {"backend": "hip"}, Shown.OUT_OF_SCOPE),
        ("sm_90", {"architectures": ["sm_80"]}, Shown.OUT_OF_SCOPE),
        ("sm_90", {"triton_versions": "nonsense"}, Shown.OUT_OF_SCOPE),
    ],
)
async def test_what_shows_nothing_changes_nothing(source, scope, expected):
    (row,), memory = await shown(rule("one", source, **scope))
    assert (row.shown, row.state, memory.proofs) == (expected, "CANDIDATE", {})


async def test_a_rule_that_is_slow_for_one_target_is_not_retired_by_the_other():
    rows, memory = await shown(rule("one", "sm_90 slow"), targets=("sm_90", "gfx942"))
    assert [row.shown for row in rows] == [Shown.REFUTED, Shown.UNCLEAR]
    assert memory.proofs == {}


async def test_a_dry_run_tells_and_changes_nothing():
    (row,), memory = await shown(rule("one", "sm_90"), dry=True)
    assert (row.shown, row.state, memory.etags) == (Shown.REFUTED, "CANDIDATE", [])


async def test_a_rule_that_changed_meanwhile_gets_its_proof_all_the_same():
    _, memory = await shown(rule("busy", "fails"))
    assert memory.etags == ["", "new"]
    assert memory.proofs["busy"].reproducer_failed


async def test_a_rule_without_a_reproducer_is_left_out():
    assert (await shown(skill_pb2.Skill(name="one")))[0] == []


def test_runs_with_several_versions_make_one_table(tmp_path):
    file = tmp_path / "results.jsonl"
    old = Row("skills/1", "You cannot a|b.", "3.10.0", "sm_90", Shown.REFUTED, None, "RETIRED")
    remembered(file, [old, Row("skills/1", "You cannot a|b.", "3.7.1", "sm_90", Shown.UNCLEAR)])
    rows = remembered(
        file,
        [Row("skills/1", "You cannot a|b.", "3.7.1", "sm_90", Shown.REPAIRED, 0), Row("skills/2", "Two.", "3.7.1", "gfx942", Shown.HOLDS)],
    )
    assert remembered(file, []) == rows
    assert markdown(rows).splitlines() == [
        "| rule | 3.7.1, gfx942 | 3.7.1, sm_90 | 3.10.0, sm_90 |",
        "| --- | --- | --- | --- |",
        "| You cannot a\\|b. | – | repaired | refuted |",
        "| Two. | holds | – | – |",
    ]


def test_a_file_of_something_else_is_named(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text("{}")
    with pytest.raises(CliError, match=r"results\.jsonl is no file of results"):
        remembered(file, [])
    assert file.read_text() == "{}"
