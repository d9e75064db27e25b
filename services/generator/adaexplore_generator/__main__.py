"""Wires the generator and serves it."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import grpc

from adaexplore.generator.v1 import generator_pb2, generator_pb2_grpc
from adaexplore.runtime.server import run_service, serve
from adaexplore.runtime.store_config import engine_for
from adaexplore_generator.config import GeneratorSettings, load
from adaexplore_generator.pricing import load_prices
from adaexplore_generator.prompting import load_prompt
from adaexplore_generator.providers import ChatEndpoint
from adaexplore_generator.providers.anthropic import AnthropicApi
from adaexplore_generator.providers.cassette import CassetteWriter
from adaexplore_generator.providers.chat_api import ChatApi
from adaexplore_generator.providers.endpoint import HttpEndpoint
from adaexplore_generator.providers.external import ExternalEndpoint
from adaexplore_generator.providers.gemini import GeminiApi
from adaexplore_generator.providers.openai import OpenAIApi
from adaexplore_generator.providers.replay import RecordingEndpoint, ReplayEndpoint
from adaexplore_generator.providers.templates import TemplatesProvider
from adaexplore_generator.replies import SCHEMA, Desk, ReplyStore
from adaexplore_generator.service import Generator
from adaexplore_generator.servicer import GeneratorServicer
from adaexplore_generator.writer import ModelWriter, Prompts

_SERVICE = generator_pb2.DESCRIPTOR.services_by_name["GeneratorService"].full_name
_COLLECT_AFTER = 20_000  # objects more than there were


def main() -> None:
    """Serve until SIGTERM or SIGINT, then drain."""
    run_service(lambda: load(sys.argv[1:], os.environ), "generator", run)


async def run(config: GeneratorSettings) -> None:
    """Serve the generator with a configuration."""

    @asynccontextmanager
    async def wiring(server: grpc.aio.Server) -> AsyncIterator[None]:
        store = ReplyStore(engine_for(config, SCHEMA), _now)
        prompts, prices = load_prompts(), load_prices(config.prices_file)
        cassette = CassetteWriter(config.record) if config.record else None
        desk = Desk(engine_for(config, SCHEMA), _now)
        writers = [
            ModelWriter(endpoint, store, prompts, prices, config.local_calls, log_prompts=config.log_prompts)
            for endpoint in model_endpoints(config, desk, cassette)
        ]
        generator = Generator([TemplatesProvider(), *writers], config.default_provider, store, desk)
        generator_pb2_grpc.add_GeneratorServiceServicer_to_server(GeneratorServicer(generator), server)
        try:
            if config.postgres_url():
                await store.open()  # a local file waits for the first call of a model: `templates` needs none
            _collect_rarely()
            yield
        finally:
            await generator.close()
            await store.close()
            await desk.close()
            if cassette:
                cassette.close()

    await serve(config, service="generator", api_services=[_SERVICE], wiring=wiring)


def _collect_rarely() -> None:
    """Let the collector of cycles pass over what is there already, and run less often than by default.

    Calls leave few cycles and many objects that live for a moment; looking at all of them took a tenth of the processor time of a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)


def model_endpoints(config: GeneratorSettings, desk: Desk, cassette: CassetteWriter | None) -> list[ChatEndpoint]:
    """Return the endpoints that hold a model; what the real ones answer goes to a cassette, if there is one.

    Raises:
        CredentialError: The file of a key cannot be used.

    """
    # Jitter must differ between replicas, so its source is the only one here that no seed fixes.
    jitter = random.SystemRandom()
    apis: list[ChatApi] = [
        OpenAIApi(config.endpoint("openai").base_url),
        AnthropicApi(config.endpoint("anthropic").base_url),
        GeminiApi(config.endpoint("gemini").base_url),
    ]
    over_http = [HttpEndpoint(api, config.endpoint(api.vendor.name), jitter, _now) for api in apis]
    real: list[ChatEndpoint] = [*over_http, ExternalEndpoint(desk, config.external_patience_s)]
    recorded = [RecordingEndpoint(endpoint, cassette) for endpoint in real] if cassette else real
    return [*recorded, ReplayEndpoint(config.replay_file)]


def load_prompts() -> Prompts:
    """Return the prompt files of this package."""
    names = ("proposer", "reviser", "tuner", "distiller", "judge", "synthesizer")
    return Prompts(**{name: load_prompt(name) for name in names})


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
