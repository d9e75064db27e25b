"""Runs jobs in a worker process and reads its answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("workers.py")


def run_worker(mode: str, jobs: list[dict], folder: Path) -> list[dict]:
    path = folder / f"{mode}.json"
    path.write_text(json.dumps(jobs))
    interpreted = "0" if mode in {"compile", "conversions"} else "1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": interpreted, "TRITON_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, str(WORKER), mode, str(path)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def failures(jobs: list[dict], results: list[dict]) -> dict[str, str]:
    assert len(jobs) == len(results)
    return {job["name"]: result["message"] for job, result in zip(jobs, results, strict=True) if not result["ok"]}
