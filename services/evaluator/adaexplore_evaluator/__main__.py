"""Wires the evaluator and serves it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc
import structlog

from adaexplore.evaluator.v1 import evaluator_pb2, evaluator_pb2_grpc
from adaexplore.runtime.config import load_config
from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.server import run_service, serve
from adaexplore_evaluator.admission import Admission
from adaexplore_evaluator.config import ENVIRONMENT_PREFIX, EvaluatorConfig
from adaexplore_evaluator.domain import JsonObject, harness_version
from adaexplore_evaluator.gpus import GpuChoiceError, chosen, list_gpus
from adaexplore_evaluator.servicer import EvaluatorServicer
from adaexplore_evaluator.sites import GpuSite, Sites
from adaexplore_evaluator.workers import Pool

# The driver and torch on a GPU take a few GiB of the host before a candidate does anything.
_GPU_RUNNER_BYTES = 16 * 1024**3
_SERVICE = evaluator_pb2.DESCRIPTOR.services_by_name["EvaluatorService"].full_name


def main() -> NoReturn:
    """Run the service as this process."""
    run_service(lambda: load_config(EvaluatorConfig, ENVIRONMENT_PREFIX, sys.argv[1:], os.environ), "evaluator", run)


async def run(config: EvaluatorConfig) -> None:
    """Serve with a configuration until told to stop.

    Raises:
        UnavailableError: A worker does not start (HOST_UNFIT).
        BindError: The address cannot be bound.

    """

    @asynccontextmanager
    async def wiring(server: grpc.aio.Server) -> AsyncIterator[None]:
        sites = _sites(config)
        await sites.start()
        pool = sites.cpu
        if pool.platform.get("sandbox_level") != "namespaces":
            structlog.get_logger().warning(
                "candidates are not isolated: they run as this user and reach its files, processes and network",
                sandbox_level=pool.platform.get("sandbox_level"),
                remedy="install bubblewrap, allow user namespaces, and demand them with --require-sandbox namespaces",
            )
        admission = Admission(sites, config.queue, config.cached_results, config.artifact_bytes)
        evaluator_pb2_grpc.add_EvaluatorServiceServicer_to_server(EvaluatorServicer(admission, sites, config), server)
        try:
            yield
        finally:
            await sites.stop()

    await serve(config, service="evaluator", api_services=[_SERVICE], wiring=wiring)


def _sites(config: EvaluatorConfig) -> Sites:
    try:
        gpus = chosen(config.gpus, list_gpus() if config.gpus != "none" else ())
    except GpuChoiceError as error:
        raise UnavailableError(f"--gpus: {error}", reason="HOST_UNFIT") from error
    settings = referee_settings(config)
    sites = []
    for gpu in gpus:
        own = {"gpu": {"index": gpu.index, "uuid": gpu.uuid}, "runner_memory_bytes": max(config.runner_memory_bytes, _GPU_RUNNER_BYTES)}
        pool = Pool({**settings, **own, "sharers": config.gpu_workers}, config.gpu_workers, config.scratch_root)
        sites.append(GpuSite(gpu, pool))
    return Sites(Pool(settings, config.workers, config.scratch_root), tuple(sites))


def referee_settings(config: EvaluatorConfig) -> JsonObject:
    """What each referee is told."""
    return {
        "require_sandbox": config.require_sandbox,
        "runner_memory_bytes": config.runner_memory_bytes,
        "scratch_root": str(config.scratch_root) if config.scratch_root else "",
        "task_memory_bytes": config.task_memory_bytes,
        "judged_elements": config.judged_elements,
        "task_s": config.task_s,
        "compile_s": config.compile_s,
        "harness_version": harness_version(),
    }


if __name__ == "__main__":
    main()
