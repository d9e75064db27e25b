import pytest
from adaexplore_evaluator.monitor import KillReason, ProcessEnd
from adaexplore_evaluator.referee.clock import CHECK, COMPILE, LOAD, SETUP, PhaseClock
from adaexplore_evaluator.referee.runners import RunnerEndedError, RunnerErrorReport
from adaexplore_evaluator.referee.verdicts import defined_names, fold, from_end, from_report, signed, timed_out

SOURCE = "import triton\nBLOCK = 64\ndef my_kernel(x_ptr, n):\n    offset = 3\n"


def clock(phase=CHECK):
    made = PhaseClock({CHECK: 10, COMPILE: 10, SETUP: 10}, lambda: 0.0, lambda *_: None)
    made.begin(phase)
    return made


@pytest.mark.parametrize(
    ("kind", "verdict", "cause"),
    [
        ("syntax", "FAILED", "SYNTAX"),
        ("contract", "FAILED", "CONTRACT"),
        ("compile", "FAILED", "COMPILE"),
        ("launch", "FAILED", "LAUNCH"),
        ("runtime", "FAILED", "RUNTIME"),
        ("memory", "FAILED", "MEMORY"),
        ("out_of_memory", "FAILED", "OUT_OF_MEMORY"),
        ("lazy_output", "REJECTED", "LAZY_OUTPUT"),
        ("not_interpretable", "INCONCLUSIVE", "NOT_INTERPRETABLE"),
        ("anything else", "FAILED", "RUNTIME"),
    ],
)
def test_the_kind_of_an_error_decides_the_cause(kind, verdict, cause):
    finding = from_report(RunnerErrorReport(kind, message="CompilationError: out of memory, shared memory, syntax"), CHECK)
    assert (finding.verdict, finding.cause, finding.phase) == (verdict, cause, CHECK)


def test_an_error_while_tuning_ends_in_the_tuning_phase():
    assert from_report(RunnerErrorReport("tune", message="no configuration runs"), COMPILE).phase == "TUNE"


def test_a_message_is_one_line_that_names_the_place():
    finding = from_report(RunnerErrorReport("compile", message="first\nsecond", line=12, kernel_name="k"), COMPILE)
    assert finding.failure.message == "line 12: kernel k: first second"


@pytest.mark.parametrize(
    ("end", "cause", "word"),
    [
        (ProcessEnd(None, 0, None), "FAULT", "exit code 0"),
        (ProcessEnd(None, None, 11), "FAULT", "SIGSEGV"),
        (ProcessEnd(KillReason.MEMORY, None, 9), "OUT_OF_MEMORY", "2.0 GiB"),
        (ProcessEnd(KillReason.SCRATCH, None, 9), "OUT_OF_MEMORY", "disk"),
        (ProcessEnd(KillReason.PROCESSES, None, 9), "TAMPER", "processes"),
    ],
)
def test_the_end_of_a_process_decides_the_cause(end, cause, word):
    finding = from_end(RunnerEndedError(end, "last words"), clock(), 2 * 2**30)
    assert finding.cause == cause
    assert word in finding.failure.message


def test_a_timeout_names_phase_and_limit():
    finding = timed_out(clock(COMPILE))
    assert (finding.cause, finding.phase) == ("TIMEOUT", COMPILE)
    assert "10 s" in finding.failure.message


def test_signatures_fold_what_differs_from_file_to_file():
    names = defined_names(SOURCE)
    first = fold("my_kernel at /tmp/a/b.py line 12: offset 0x7f1 of x_ptr is 3.5e-2, tl.no_such missing", names)
    second = fold("my_kernel at /home/u/c.py line 7: n 0xabc of BLOCK is 12, tl.no_such missing", names)
    assert first == second
    assert "tl.no_such" in first


def test_signatures_keep_apart_what_a_library_lacks():
    def sign(text):
        report = RunnerErrorReport("compile", exception_type="AttributeError", message=text, detail=f"trace\n{text}")
        return signed(from_report(report, COMPILE), SOURCE).failure.signature

    assert sign("module 'triton.language.math' has no attribute 'tanh'") != sign("module 'triton.language.math' has no attribute 'erf'")
    assert sign("line 3 is bad").startswith("COMPILE|COMPILE|AttributeError|")


def test_names_of_a_broken_file_are_unknown():
    assert defined_names("def broken(:") == frozenset()


def test_a_phase_has_one_budget_however_often_it_is_entered():
    now = [0.0]
    entered = []
    made = PhaseClock({CHECK: 10, COMPILE: 5, SETUP: 1}, lambda: now[0], lambda phase, _: entered.append(phase))
    made.begin(CHECK)
    now[0] = 4.0
    made.enter("compile", "k")
    now[0] = 7.0
    made.enter("check", "k")
    assert made.left_s() == 6
    made.enter("tune", "k")
    assert made.left_s() == 2
    made.enter("timing", "a runner may not name this phase")
    assert made.phase == "TUNE"
    assert entered == [CHECK, COMPILE, "TUNE"]
    assert made.spent_s == {CHECK: 4.0, COMPILE: 3.0, "TUNE": 0.0}


def test_loading_counts_as_setup():
    now = [0.0]
    made = PhaseClock({SETUP: 5}, lambda: now[0], lambda *_: None)
    made.begin(LOAD)
    now[0] = 2.0
    made.begin(SETUP)
    assert made.left_s() == 3
