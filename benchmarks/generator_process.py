"""The generator as a process that can be killed and started again at the same address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from benchmarks.model_server import price_file


class GeneratorProcess:
    """A generator over a local model with known prices; a context manager.

    Args:
        state_dir: Folder of its state, which outlives it.
        base_url: Base URL of the model.
        settings: Further settings, by name.

    """

    def __init__(self, state_dir: Path, base_url: str, settings: Mapping[str, object] | None = None) -> None:
        prices = state_dir / "prices.json"
        prices.write_text(price_file())
        given = {"openai_base_url": base_url, "default_provider": "openai", "prices_file": prices} | dict(settings or {})
        self._variables = {f"ADAEXPLORE_GENERATOR_{name.upper()}": str(value) for name, value in given.items()}
        self._state_dir, self._log = state_dir, (state_dir / "generator.log").open("ab")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Id of the process that runs now."""
        return self._process.pid

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._process.terminate()
            self._ended(30)
        self._log.close()

    def kill_and_restart(self) -> None:
        """Kill it as the kernel would, and start another one at its address."""
        with self._lock:
            self._process.send_signal(signal.SIGKILL)
            self._ended(30)
            self._start()

    def _ended(self, limit_s: float) -> None:
        self._process.wait(limit_s)
        if self._process.stdout:
            self._process.stdout.close()

    def _start(self) -> None:
        theirs = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "ADAEXPLORE_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        command = [sys.executable, "-m", "adaexplore_generator", "--state-dir", str(self._state_dir), "--listen", self.address]
        self._process = subprocess.Popen(command, env=clean | self._variables, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        json.loads(self._process.stdout.readline())
