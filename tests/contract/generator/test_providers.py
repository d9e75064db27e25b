"""What every provider must do, whether it has a model or not."""

import asyncio
from dataclasses import replace

import pytest
from adaexplore_generator.__main__ import load_prompts
from adaexplore_generator.domain import ContextKernel, DistillRequest, Feedback, GenerateRequest, Move, Outcome, Sampling, Task
from adaexplore_generator.graph import TaskDescription
from adaexplore_generator.pricing import Prices
from adaexplore_generator.providers.replay import ReplayEndpoint
from adaexplore_generator.providers.templates import TemplatesProvider
from adaexplore_generator.replies import ReplyStore
from adaexplore_generator.writer import ModelWriter
from contract.generator.chat_endpoints import now, subject
from integration.generator.fake_endpoint import endpoint as running_endpoint

from adaexplore.runtime.errors import FailedPreconditionError, ServiceError
from adaexplore.runtime.sql import sqlite_engine

KERNEL = "class ModelNew:\n    name = 'wörld \U0001f600'\n"
REQUEST = GenerateRequest("a", Task("t", "class Model: pass  # wörld"), TaskDescription(), Move.STRUCTURAL, sampling=Sampling(model="m"))


@pytest.fixture(params=["openai", "anthropic", "gemini", "replay", "templates"])
async def provider(request, tmp_path):
    """A provider that can answer one request."""
    if request.param == "templates":
        yield TemplatesProvider()
        return
    store = ReplyStore(sqlite_engine(tmp_path / "replies.db"), now)
    with running_endpoint() as fake:
        if request.param == "replay":
            endpoint = ReplayEndpoint(None)
        else:
            asked = subject(request.param, fake)
            fake.script(asked.speech.says(f"One.\n```python\n{KERNEL}```"))
            endpoint = asked.endpoint()
        provider = ModelWriter(endpoint, store, load_prompts(), Prices([]))
        yield provider
        await provider.close()
        await store.close()


async def test_it_writes_a_kernel_or_says_what_it_needs(provider):
    stages, needs = [], {"templates": "GRAPH_REQUIRED", "replay": "PROVIDER_REFUSED_REQUEST"}
    if provider.name in needs:
        with pytest.raises(FailedPreconditionError) as caught:
            await provider.generate(REQUEST, stages.append)
        assert caught.value.reason == needs[provider.name]
        return
    candidate = await provider.generate(REQUEST, stages.append)
    assert (candidate.provider, candidate.outcome, candidate.source) == (provider.name, Outcome.KERNEL, KERNEL)
    assert candidate.usage.calls == 1
    assert {progress.stage for progress in stages} == {"proposing"}


async def test_it_lists_its_models_under_its_name(provider):
    models = await provider.list_models()
    assert {model.provider for model in models} <= {provider.name}
    assert bool(models) is (provider.name != "replay")


async def test_it_words_a_rule_or_says_that_it_has_no_model(provider):
    request = DistillRequest("b", ContextKernel("x", feedback=Feedback("FAILED", "COMPILE")), Sampling(model="m"))
    without = {"templates": "MODEL_REQUIRED", "replay": "PROVIDER_REFUSED_REQUEST"}
    if provider.name not in without:
        assert (await provider.distill(request)).usage.calls == 1
        return
    with pytest.raises(ServiceError) as caught:
        await provider.distill(request)
    assert caught.value.reason == without[provider.name]


async def test_an_estimate_asks_nobody_and_names_the_provider(provider):
    found = provider.estimate(replace(REQUEST, request_id="c"))
    assert found.provider == provider.name
    assert (found.worst_case.calls > 0) is (provider.name != "templates")


async def test_a_call_can_be_left_before_it_begins(provider):
    work = asyncio.create_task(provider.generate(REQUEST, lambda _: None))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
