"""The run under a sanitizer in the real sandbox; the tool is a stand-in that runs its program and prints what compute-sanitizer would."""

import time
from types import SimpleNamespace

import pytest
import torch
from adaexplore_evaluator.referee.cuda.sanitizer_log import SanitizerLog, parse_log
from adaexplore_evaluator.referee.cuda.sanitizing import Order, SanitizedRun, finding_of, run_sanitized, wait_for_end, with_run
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.tasks import JobCancelledError
from adaexplore_evaluator.sandbox import Limits, Sandbox, SandboxLevel
from adaexplore_evaluator.sanitizers import Sanitizer

CANDIDATE = """
import torch
def add_kernel(x):
    return x + 1
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return add_kernel(x)
"""
RAISES = CANDIDATE.replace("return add_kernel(x)", "raise ValueError('not here')")
SUMMARY = "========= ERROR SUMMARY: {} errors"
FOUND = (
    "========= Invalid __global__ read of size 4 bytes\n"
    "=========     at {}+0x90 in candidate.py:12\n"
    "=========     by thread (31,0,0) in block (7,0,0)\n"
    "=========     Address 0x7f0000001000 is out of bounds\n"
    "=========     and is 1,025 bytes after the nearest allocation at 0x7f0000000000 of size 3,072 bytes\n"
)
# The program follows --report-api-errors no, or for other tools --print-limit 100.
SCRIPT = """#!/bin/sh
while [ "$1" != 100 ]; do [ "$1" = --log-file ] && log="$2"; shift; done
shift; [ "$1" = --report-api-errors ] && shift 2
{run}
cat > "$log" <<'LOG'
{log}
LOG
"""


@pytest.fixture
def fleet(tmp_path):
    with Fleet(Sandbox(SandboxLevel.PROCESS, Limits(), root=tmp_path)) as made:
        yield made


@pytest.fixture
def stand_in(tmp_path):
    def make(log, run='"$@"'):
        root = tmp_path / "tool"
        (root / "bin").mkdir(parents=True)
        program = root / "bin" / "compute-sanitizer"
        program.write_text(SCRIPT.format(run=run, log=log))
        program.chmod(0o755)
        return Sanitizer(program, root)

    return make


def task():
    case = SimpleNamespace(made=Made([torch.ones(4)], []), state={})
    source = SimpleNamespace(precision="fp32")
    return SimpleNamespace(cases=(case,), default_cases=(case,), entry_point="ModelNew", format="module", seed=1, source=source)


def run(fleet, program, source=CANDIDATE, budget_s=120.0, cancelled=lambda: False):
    return run_sanitized(fleet, program, task(), Order("memcheck", source, "sm_90", False), cancelled, budget_s=budget_s)


def test_a_clean_log_and_a_complete_run_are_no_finding(fleet, stand_in):
    done = run(fleet, stand_in(SUMMARY.format(0)))
    assert (done.problem, done.log.total, finding_of("memcheck", done, CANDIDATE)) == ("", 0, None)


def test_an_error_in_its_own_kernel_fails_the_candidate(fleet, stand_in):
    done = run(fleet, stand_in(FOUND.format("add_kernel") + SUMMARY.format(1)))
    finding = finding_of("memcheck", done, CANDIDATE)
    assert (finding.verdict, finding.cause, finding.failure.kernel_name) == ("FAILED", "MEMORY", "add_kernel")
    assert "1,025 bytes after the nearest allocation" in finding.failure.message
    assert "mask every load" in finding.failure.message


@pytest.mark.parametrize(
    ("log", "source", "says"),
    [
        (FOUND.format("add_kernel"), CANDIDATE, "without its summary after Invalid"),
        (FOUND.format("library_gemm") + SUMMARY.format(1), CANDIDATE, "no kernel that the candidate names"),
        (SUMMARY.format(2), CANDIDATE, "counts 2 errors"),
        ("", CANDIDATE, "without its summary"),
        (SUMMARY.format(0), RAISES, "not here"),
    ],
)
def test_what_is_incomplete_is_no_verdict(fleet, stand_in, log, source, says):
    finding = finding_of("memcheck", run(fleet, stand_in(log), source), source)
    assert (finding.verdict, finding.cause) == ("INCONCLUSIVE", "NOT_SANITIZED")
    assert says in finding.failure.message


def test_a_tool_that_does_not_start_the_program_is_no_verdict(fleet, stand_in):
    done = run(fleet, stand_in(SUMMARY.format(0), run=":"))
    finding = finding_of("memcheck", done, CANDIDATE)
    assert finding.cause == "NOT_SANITIZED"
    assert "did not come to its end" in finding.failure.message


def test_a_run_beyond_its_budget_is_no_verdict(fleet, stand_in):
    done = run(fleet, stand_in(SUMMARY.format(0), run="sleep 600"), budget_s=0.2)
    assert "longer than 0.2 s" in done.problem
    assert finding_of("memcheck", done, CANDIDATE).cause == "NOT_SANITIZED"


def test_a_caller_that_gives_up_ends_the_run(fleet, stand_in):
    with pytest.raises(JobCancelledError):
        run(fleet, stand_in(SUMMARY.format(0), run="sleep 600"), cancelled=lambda: True)


def test_without_the_tool_there_is_no_verdict(fleet):
    assert "install" in finding_of("memcheck", run(fleet, None), CANDIDATE).failure.message


def test_races_are_nondeterministic_and_the_timing_stays():
    log = parse_log(
        "========= Error: Race reported between Write access at add_kernel+0x90\n"
        "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
    )
    found = with_run(
        {"timing": {"median_us": 2.0}, "verdict": "VERDICT_PASSED"}, "racecheck", "2026.4", SanitizedRun(log, "", 1.5), CANDIDATE, True
    )
    assert (found["verdict"], found["cause"], found["timing"]) == ("VERDICT_FAILED", "CAUSE_NONDETERMINISTIC", {"median_us": 2.0})
    assert (found["sanitization"]["error_count"], found["sanitization"]["reduced_shape"]) == (1, True)


def test_evidence_of_a_run_without_a_summary_counts_nothing():
    found = with_run({}, "memcheck", "", SanitizedRun(SanitizerLog((), None, ""), "it took too long", 1.0), CANDIDATE, False)
    assert "error_count" not in found["sanitization"]


def test_what_is_done_meanwhile_takes_nothing_from_the_budget():
    ends = [None, None, None, SimpleNamespace(killed=None, signal=None)]
    runner = SimpleNamespace(ended=lambda _timeout_s: ends.pop(0))
    seen = []

    def meanwhile(found):
        seen.append(found)
        time.sleep(0.2)

    assert wait_for_end(runner, time.monotonic() + 0.3, 0.3, lambda: False, meanwhile) == ""
    assert seen == [runner] * 3
