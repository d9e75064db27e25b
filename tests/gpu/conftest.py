import shutil
import subprocess

import pytest

ROWS = []


def gpus():
    if shutil.which("nvidia-smi") is None:
        return []
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.splitlines()


def pytest_collection_modifyitems(items):
    if not gpus():
        for item in items:
            if item.path.parent.name == "gpu":
                item.add_marker(pytest.mark.skip(reason="no CUDA GPU"))


@pytest.fixture
def report_row():
    """Adds a row to the table at the end of the run."""
    return ROWS.append


def pytest_terminal_summary(terminalreporter):
    for row in ROWS:
        terminalreporter.write_line(row)
