"""Whose text on standard output is the candidate's doing."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import triton
from pathlib import Path
from adaexplore_evaluator.runner.printing import NotingOutput

sys.stdout = NotingOutput(lambda: "candidate.py")
path = {path}
exec(compile("print('a page')", path, "exec"))
sys.stdout.told()
sys.stderr.write(str(sys.stdout.line))
"""
COMPILER = 'str(Path(triton.__file__).parent / "backends" / "nvidia" / "compiler.py")'
LIBRARY = 'str(Path(triton.__file__).parent / "testing.py")'


@pytest.mark.parametrize(
    ("path", "printed", "logged"),
    [(COMPILER, "", "a page\n0"), (LIBRARY, "a page\n", "0"), ('"candidate.py"', "a page\n", "1")],
    ids=["the compiler", "another library", "the candidate"],
)
def test_text_is_the_candidates_unless_tritons_compiler_prints_it(path, printed, logged):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(path=path)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (printed, logged)
