"""All devices of this replica behind one queue: a pool of referees for the cpu device, and one for each GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from adaexplore.runtime.errors import UnavailableError
from adaexplore_evaluator.domain import JsonObject
from adaexplore_evaluator.gpus import Gpu
from adaexplore_evaluator.workers import Pool, Progress


@dataclass(frozen=True)
class GpuSite:
    """One GPU with the pool of referees that share it."""

    gpu: Gpu
    pool: Pool


class Sites:
    """Sends each job to the device that it names.

    Args:
        cpu: Pool of the cpu device.
        gpus: One site a GPU.

    """

    def __init__(self, cpu: Pool, gpus: tuple[GpuSite, ...]) -> None:
        self.cpu = cpu
        self.gpus = gpus
        self._log = structlog.get_logger()

    @property
    def size(self) -> int:
        """Jobs that are done at one time, on all devices together."""
        return self.cpu.size + sum(site.pool.size for site in self.gpus)

    async def start(self) -> None:
        """Start every referee; a GPU that refuses is told as not healthy, and tried again with its next job.

        Raises:
            UnavailableError: The cpu device does not start (HOST_UNFIT).

        """
        await asyncio.gather(self.cpu.start(), *(self._start(site) for site in self.gpus))

    async def stop(self) -> None:
        """End every referee."""
        await asyncio.gather(self.cpu.stop(), *(site.pool.stop() for site in self.gpus))

    async def do(self, job: JsonObject, task: str, progress: Progress) -> JsonObject:
        """Do a job on its device; raises as `Pool.do` does."""
        return await self._pool(job, task).do(job, task, progress)

    async def _start(self, site: GpuSite) -> None:
        try:
            await site.pool.start()
        except UnavailableError as error:
            self._log.warning("a GPU is not served", gpu=site.gpu.index, problem=str(error))

    def _pool(self, job: Mapping[str, object], task: str) -> Pool:
        if job.get("device") != "cuda":
            return self.cpu
        fitting = [site for site in self.gpus if job.get("gpu") in (None, site.gpu.index)]
        if not fitting:
            raise UnavailableError("this evaluator serves no such GPU", reason="HOST_UNFIT")
        return min(fitting, key=lambda site: (bool(site.pool.problem), site.pool.load, not site.pool.knows(task))).pool
