"""Real runner processes over pipes, without a sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adaexplore_evaluator.runner.frames import read_frame, write_frame
from adaexplore_evaluator.runner.wire import BufferFolder


class Runner:
    def __init__(self, role: str, folder: Path) -> None:
        self.buffers_path = folder / "buffers"
        self.buffers_path.mkdir()
        self.buffers = BufferFolder(self.buffers_path, "x")
        self.log_path = folder / "log"
        self.progress: list[dict[str, object]] = []
        self._count = 0
        command_read, self._command = os.pipe()
        self._reply, reply_write = os.pipe()
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "adaexplore_evaluator.runner", "--role", role),
                    *("--command-fd", str(command_read), "--reply-fd", str(reply_write), "--buffers", str(self.buffers_path)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(command_read, reply_write),
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # as every launcher does: the brake counts the processes of a session
            )
        os.close(command_read)
        os.close(reply_write)

    def ask(self, command: str, **fields: object) -> dict[str, object]:
        self._count += 1
        write_frame(self._command, {"id": self._count, "command": command, **fields})
        while (reply := read_frame(self._reply)) is not None:
            assert reply["id"] == self._count
            if "progress" not in reply:
                return reply
            self.progress.append(reply["progress"])
        raise AssertionError(f"the runner died: {self.log_path.read_text()[-2000:]}")

    def get(self, command: str, **fields: object) -> dict[str, object]:
        reply = self.ask(command, **fields)
        assert reply["ok"], reply
        return reply

    def error(self, command: str, **fields: object) -> dict[str, object]:
        reply = self.ask(command, **fields)
        assert not reply["ok"], reply
        return reply["error"]

    def close(self) -> int:
        os.close(self._command)
        code = self.process.wait(timeout=240)
        os.close(self._reply)
        return code


@pytest.fixture(scope="module")
def start_runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Runner]]:
    runners: list[Runner] = []

    def start(role: str) -> Runner:
        runners.append(Runner(role, tmp_path_factory.mktemp(role)))
        return runners[-1]

    yield start
    for runner in runners:
        if runner.process.poll() is None:
            runner.process.kill()
            runner.process.wait(timeout=240)


@pytest.fixture(scope="module")
def reference(start_runner: Callable[[str], Runner]) -> Runner:
    return start_runner("reference")


@pytest.fixture(scope="module")
def candidate(start_runner: Callable[[str], Runner]) -> Runner:
    return start_runner("candidate")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    def write_source(source: str) -> str:
        path = tmp_path / "task.py"
        path.write_text(source)
        return str(path)

    return write_source
