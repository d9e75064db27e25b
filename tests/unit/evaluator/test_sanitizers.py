import shutil

import pytest
from adaexplore_evaluator.sanitizers import Sanitizer, find_sanitizer


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'NVIDIA (R) Compute Sanitizer'\necho 'Version 2026.4.0.0 (build 39022338) (public-release)'\n")
    path.chmod(0o755)
    return path


def test_the_tool_on_the_path_comes_first(program, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: str(program))
    found = find_sanitizer()
    assert (found.program, found.root) == (program.resolve(), program.resolve().parent.parent)
    assert found.version() == "2026.4.0.0"


def test_libraries_beside_the_folder_of_programs_are_named(program, tmp_path):
    plain = Sanitizer(program, tmp_path).argv("racecheck", tmp_path / "log")
    assert "--injection-path" not in plain
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libsanitizer-collection.so").touch()
    named = Sanitizer(program, tmp_path).argv("memcheck", tmp_path / "log")
    assert named[named.index("--injection-path") + 1] == str(tmp_path / "lib")


def test_a_tool_that_does_not_run_has_no_version(tmp_path):
    assert Sanitizer(tmp_path / "absent", tmp_path).version() == ""
