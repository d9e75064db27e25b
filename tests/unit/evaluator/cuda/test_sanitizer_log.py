import pytest
from adaexplore_evaluator.referee.cuda.sanitizer_log import parse_log

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at add_kernel+0x90 in candidate.py:12
=========     by thread (31,0,0) in block (7,0,0)
=========     Address 0x7f0000001000 is out of bounds
=========     and is 1,025 bytes after the nearest allocation at 0x7f0000000000 of size 3,072 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0xadb6] in python3
=========
========= Invalid __global__ read of size 4 bytes
=========     at add_kernel+0x90 in candidate.py:12
=========     by thread (32,0,0) in block (7,0,0)
=========     Address 0x7f0000001004 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
OLDER = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 8
=========     at 0x160 in unaligned_kernel(int *)
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x7f6510c00001 is misaligned
========= ERROR SUMMARY: 1 error
"""
CALLED = """========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_function()+0xb0 in demo.cu:39
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
=========         Device Frame: out_of_bounds_kernel()+0x30 in demo.cu:44
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_kernel(int *, int *)+0x90 in block_error.cu:41
=========     and Read access at sum_kernel(int *, int *)+0x100 in block_error.cu:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WARNED = """========= Warning: Race reported between Write access at sum_kernel+0x90 in a.cu:41
=========     and Read access at sum_kernel+0x100 in a.cu:51 [4 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
HAZARD = """========= ERROR: Potential WAW hazard detected at __shared__ 0x0 in block (2,0,0) :
=========     Write Thread (0,0,0) at WAW()+0x2f0 in raceWAW.cu:20
=========     Write Thread (1,0,0) at WAW()+0x2f0 in raceWAW.cu:20
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNINITIALIZED = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at vector_add(int *)+0x70 in memset_error.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1,048 errors
"""
BARRIER = """========= Barrier error detected. Divergent thread(s) in warp
=========     at divergent(int *, int)+0xf0 in divergence.cu:79
=========     by thread (37,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_the_same_error_of_one_kernel_is_counted_together():
    log = parse_log(MEMCHECK)
    (error,) = log.errors
    assert (error.kind, error.kernel, error.size_bytes, error.count) == ("Invalid __global__ read of size 4", "add_kernel", 4, 2)
    assert (error.address, error.thread, error.block) == ("0x7f0000001000", "(31,0,0)", "(7,0,0)")
    assert error.distance == "1,025 bytes after the nearest allocation at 0x7f0000000000 of size 3,072 bytes"
    assert (log.total, log.problem) == (2, "")


@pytest.mark.parametrize(
    ("text", "kind", "kernel", "count", "total"),
    [
        (OLDER, "Invalid __global__ write of size 8", "unaligned_kernel", 1, 1),
        (CALLED, "Invalid __global__ write of size 4", "out_of_bounds_kernel", 1, 1),
        (RACE, "race on shared memory", "sum_kernel", 508, 1),
        (HAZARD, "WAW hazard on shared memory", "WAW", 1, 1),
        (UNINITIALIZED, "Uninitialized __global__ memory read of size 4", "vector_add", 1, 1048),
        (BARRIER, "Barrier error detected. Divergent thread(s) in warp", "divergent", 1, 1),
    ],
)
def test_every_tool_and_wording_is_read(text, kind, kernel, count, total):
    log = parse_log(text)
    (error,) = log.errors
    assert (error.kind, error.kernel, error.count, log.total) == (kind, kernel, count, total)


def test_a_warning_is_no_error():
    log = parse_log(WARNED)
    assert (log.errors, log.total) == ((), 0)


def test_a_clean_log_has_a_summary_of_nothing():
    assert (parse_log(CLEAN).errors, parse_log(CLEAN).total, parse_log(CLEAN).problem) == ((), 0, "")


@pytest.mark.parametrize(
    "line",
    [
        "Unable to find injection library libsanitizer-collection.so",
        "Error: Target application terminated before first instrumented API call",
        "Internal Sanitizer Error: The Sanitizer encountered an error while launching k and didn't track the launch.",
    ],
)
def test_a_tool_that_did_not_see_all_says_so(line):
    assert line in parse_log(f"========= COMPUTE-SANITIZER\n========= {line}\n").problem


def test_what_a_program_prints_and_a_log_that_breaks_off_have_no_summary():
    assert parse_log("ERROR SUMMARY: 0 errors\n").total is None
    assert parse_log(MEMCHECK.partition("========= ERROR SUMMARY")[0]).total is None
