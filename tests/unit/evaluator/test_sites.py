"""Which device does a job."""

import pytest
from adaexplore_evaluator.gpus import Gpu
from adaexplore_evaluator.sites import GpuSite, Sites

from adaexplore.runtime.errors import UnavailableError


class Pool:
    size = 1

    def __init__(self, name, load=0, task="", problem="", refuses=False):
        self.name, self.load, self.problem, self._task, self._refuses = name, load, problem, task, refuses
        self.started = False

    def knows(self, task):
        return task == self._task

    async def start(self):
        if self._refuses:
            self.problem = "no context"
            raise UnavailableError("no context", reason="HOST_UNFIT")
        self.started = True

    async def do(self, job, task, progress):
        return self.name


def sites(*gpus):
    return Sites(Pool("cpu"), tuple(GpuSite(Gpu(at, f"GPU-{at}", "H200", 0, "sm_90"), pool) for at, pool in enumerate(gpus)))


async def done_by(found, **job):
    return await found.do(job, "task", lambda *_: None)


@pytest.mark.parametrize("job", [{}, {"device": "cpu"}])
async def test_what_names_no_gpu_goes_to_the_cpu(job):
    assert await done_by(sites(Pool("gpu")), **job) == "cpu"


async def test_a_gpu_that_is_named_does_it_however_busy():
    assert await done_by(sites(Pool("first"), Pool("second", load=5)), device="cuda", gpu=1) == "second"


async def test_the_least_busy_gpu_does_it_and_of_equals_the_one_that_knows_the_task():
    assert await done_by(sites(Pool("first", load=2), Pool("second", load=1)), device="cuda", gpu=None) == "second"
    assert await done_by(sites(Pool("first"), Pool("second", task="task")), device="cuda", gpu=None) == "second"


async def test_a_gpu_with_a_problem_is_the_last_choice():
    assert await done_by(sites(Pool("first", problem="it fell off the bus"), Pool("second", load=9)), device="cuda") == "second"


async def test_without_such_a_gpu_the_job_is_refused():
    with pytest.raises(UnavailableError):
        await done_by(sites(), device="cuda")


async def test_a_gpu_that_does_not_start_leaves_the_others_at_work():
    found = sites(Pool("first", refuses=True), Pool("second"))
    await found.start()
    assert found.cpu.started
    assert [site.pool.started for site in found.gpus] == [False, True]
    assert found.size == 3
