"""The cpu device counts what a candidate's launches do, for a profile of what a GPU has measured."""

import os

import pytest
from adaexplore_evaluator.__main__ import referee_settings
from adaexplore_evaluator.config import EvaluatorConfig
from adaexplore_evaluator.domain import EvaluateJob, PhaseBudgets, Place, StateMode, TaskSpec
from adaexplore_evaluator.workers import Pool

from .conftest import kernel, task


def counting(kernel_name):
    spec = TaskSpec("scale.py", task("scale").source, "module", "fp32", "any")
    budgets = PhaseBudgets(400.0, 400.0, 400.0, 400.0)
    place = Place("sm_90", "cuda", 0)
    return EvaluateJob("", spec, kernel(kernel_name).source, place, StateMode.BY_NAME, True, budgets, profile=True)


@pytest.fixture
async def pool(tmp_path):
    config = EvaluatorConfig(parent_pid=os.getpid(), task_s=400.0)
    found = Pool(referee_settings(config), 1, tmp_path)
    await found.start()
    yield found
    await found.stop()


async def test_work_is_counted_without_judging_and_what_does_not_run_says_why(pool):
    job = counting("returns_input")
    wrong = await pool.do(job.to_counting_json(), job.task.digest, lambda *_: None)
    assert wrong["checks"] == []
    job = counting("scale")
    found = await pool.do(job.to_counting_json(), job.task.digest, lambda *_: None)
    (launch,) = found["launches"]
    assert launch["dram_bytes"] == pytest.approx(2 * 4 * 200 * 300, rel=0.05)
    assert launch["flops"] == pytest.approx(2 * 200 * 300, rel=0.05)
    assert found["checks"] == []
    job = counting("exits")
    ended = await pool.do(job.to_counting_json(), job.task.digest, lambda *_: None)
    assert ended["failure"]["message"]
