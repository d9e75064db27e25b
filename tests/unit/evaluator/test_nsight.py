import shutil

import pytest
from adaexplore_evaluator.nsight import METRICS, NsightCompute, find_nsight_compute, parse_counters, restricted

HEAD = '"ID","Process ID","Process Name","Kernel Name","Context","Stream","Block Size","Grid Size","CC",'
LOG = f"""==PROF== Connected to process 42 (/usr/bin/python3)
==PROF== Profiling "scale_kernel" - 0: 0%....50%....100% - 4 passes
==PROF== Disconnected from process 42
{HEAD}"dram__bytes.sum","gpu__time_duration.sum","lts__t_sector_hit_rate.pct"
"","","","","","","","","","byte","ns","%"
"0","42","python3","scale_kernel","1","7","(128, 1, 1)","(1000, 1, 1)","9.0","134,217,728","30,000","10.5"
"1","42","python3","void at::native::copy<int>(int, int)","1","7","(128, 1, 1)","(9, 1, 1)","9.0","4,096","90,000","n/a"
"2","42","python3","scale_kernel","1","7","(128, 1, 1)","(1000, 1, 1)","9.0","134,217,730","40,000","11.5"
"""


def program(tmp_path, folder):
    path = tmp_path / folder / "ncu"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_counters_are_means_by_kernel_the_one_with_most_time_first():
    found = parse_counters(LOG)
    assert [(item.kernel, item.launches) for item in found.kernels] == [
        ("void at::native::copy<int>(int, int)", 1),
        ("scale_kernel", 2),
    ]
    scale = found.kernels[1].values
    assert scale == {"dram__bytes.sum": 134217729.0, "gpu__time_duration.sum": 35000.0, "lts__t_sector_hit_rate.pct": 11.0}
    assert "lts__t_sector_hit_rate.pct" not in found.kernels[0].values
    assert (found.error, found.denied) == ("", False)


def test_what_the_driver_does_not_permit_is_told_apart_from_other_errors():
    denied = parse_counters("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n")
    assert denied.denied
    assert denied.kernels == ()
    other = parse_counters("==ERROR== Failed to prepare kernel for profiling\n")
    assert (other.error, other.denied) == ("Failed to prepare kernel for profiling", False)


@pytest.mark.parametrize("text", ["", "nothing\n", '"ID","Kernel Name"\n', '"ID"\n"",\n"0","1"\n'])
def test_a_log_without_counters_has_no_values(text):
    assert all(item.values == {} for item in parse_counters(text).kernels)


def test_the_driver_says_whether_it_restricts(tmp_path):
    parameters = tmp_path / "params"
    assert not restricted(parameters)
    parameters.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    assert restricted(parameters)
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    assert not restricted(parameters)


@pytest.mark.parametrize(("folder", "root"), [("toolkit/bin", "toolkit"), ("nsight-compute-2026.1", "nsight-compute-2026.1")])
def test_the_tool_on_the_path_comes_first_with_what_it_loads(tmp_path, monkeypatch, folder, root):
    path = program(tmp_path, folder)
    monkeypatch.setattr(shutil, "which", lambda _name: str(path))
    found = find_nsight_compute()
    assert (found.program, found.root) == (path.resolve(), (tmp_path / root).resolve())


def test_only_what_the_program_marks_is_looked_at(tmp_path):
    argv = NsightCompute(tmp_path / "ncu", tmp_path).argv(tmp_path / "log")
    assert argv[argv.index("--profile-from-start") + 1] == "off"
    assert argv[argv.index("--clock-control") + 1] == "none"
    assert argv[argv.index("--metrics") + 1] == ",".join(METRICS)
