"""Wires the controller service and serves it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NoReturn

import grpc

from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.controller.v1 import controller_pb2_grpc
from adaexplore.runtime.config import load_config
from adaexplore.runtime.server import run_service, serve
from adaexplore.runtime.store_config import engine_for
from adaexplore_controller.config import ENVIRONMENT_PREFIX, ControllerConfig
from adaexplore_controller.engine.bell import Bell
from adaexplore_controller.engine.context import Peers
from adaexplore_controller.engine.control import Control
from adaexplore_controller.engine.estimator import Estimator
from adaexplore_controller.engine.patience import Patience, Patient
from adaexplore_controller.engine.run import SearchRunner
from adaexplore_controller.engine.supervisor import Supervisor, SupervisorSettings
from adaexplore_controller.engine.treasury import Treasury
from adaexplore_controller.engine.watch import Watcher
from adaexplore_controller.peers import CallLimits, Connections
from adaexplore_controller.servicer import ControllerServicer
from adaexplore_controller.store import SCHEMA, Database, History, LeaseHolder, Ledger, SearchStore


async def run(config: ControllerConfig) -> None:
    """Serve with a configuration until told to stop.

    Raises:
        UnavailableError: The store cannot be used.
        SchemaOutdatedError: The PostgreSQL database has not been migrated.
        BindError: The address cannot be bound.

    """
    bell, stop = Bell(), _stop_on_signals()
    async with _opened(config) as database, _connected(config) as connections:
        store, history, ledger = SearchStore(database, _now, changed=bell.ring), History(database), Ledger(database, _now)
        holder = LeaseHolder.this_process(uuid.uuid4().hex)
        patient = Patient(Patience(outage_s=config.peer_patience_s, provider_s=config.provider_patience_s), asyncio.sleep)
        peers = Peers(connections.generator, connections.evaluator, connections.memory)
        treasury = Treasury(ledger, config.max_cost_per_day_micro_usd, asyncio.sleep)
        runner = SearchRunner(store, history, peers, patient, treasury, holder.owner, _now, time.monotonic)
        supervisor = Supervisor(store, runner, holder, _settings(config), _now, asyncio.sleep)
        control = Control(store, supervisor, Estimator(peers, treasury), new_id=lambda: uuid.uuid4().hex[:16])
        servicer = ControllerServicer(control, Watcher(store, history, bell, stop), store, history, ledger)

        @asynccontextmanager
        async def wiring(server: grpc.aio.Server) -> AsyncIterator[None]:
            """Register the servicer and drive searches while the server runs."""
            controller_pb2_grpc.add_ControllerServiceServicer_to_server(servicer, server)
            await supervisor.start()
            try:
                yield
            finally:
                await supervisor.stop()

        await serve(config, service="controller", api_services=["adaexplore.controller.v1.ControllerService"], wiring=wiring, stop=stop)


def main() -> NoReturn:
    """Run the service as this process."""
    run_service(lambda: load_config(ControllerConfig, ENVIRONMENT_PREFIX, sys.argv[1:], os.environ), "controller", run)


def _now() -> datetime:
    return datetime.now(UTC)


def _stop_on_signals() -> asyncio.Event:
    # The event is ours, not the server's: streams that follow a search end with it, so that draining does not wait for them.
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _settings(config: ControllerConfig) -> SupervisorSettings:
    return SupervisorSettings(config.lease_s, config.max_running, take_over=config.resume == "on-start")


@asynccontextmanager
async def _opened(config: ControllerConfig) -> AsyncIterator[Database]:
    database = Database(engine_for(config, SCHEMA))
    try:
        await database.open()
        yield database
    finally:
        await database.close()


def _connected(config: ControllerConfig) -> Connections:
    limits = CallLimits(
        describe_s=config.describe_deadline_s,
        generate_s=config.generate_deadline_s,
        evaluate_s=config.evaluate_deadline_s,
        compile_s=config.compile_deadline_s,
        memory_s=config.memory_deadline_s,
    )
    return Connections(
        generator=AsyncGeneratorClient(config.generator_address, config.peer_security("generator")),
        evaluator=AsyncEvaluatorClient(config.evaluator_address, config.peer_security("evaluator")),
        memory=AsyncMemoryClient(config.memory_address, config.peer_security("memory")),
        limits=limits,
    )


if __name__ == "__main__":
    main()
