"""What is paid for when things break: a generator that is killed, a model that fails, a cap that holds."""

from __future__ import annotations

import argparse
import asyncio
import random

import pytest
from adaexplore_generator.pricing import read_table

from benchmarks import cost_caps, generator_kills
from benchmarks.generator_process import GeneratorProcess
from benchmarks.model_server import FAULTS, ModelServer, price_file


def test_a_killed_generator_uses_what_it_has_paid_for_and_accounts_for_the_rest(tmp_path):
    with ModelServer(latency_s=0.05, piece_s=0.02).running() as server:
        with GeneratorProcess(tmp_path, server.url) as process:
            found = asyncio.run(generator_kills.generations(process, kills=2, in_flight=4, draw=random.Random(1)))
        assert generator_kills.problems(found, server.bills) == []
    assert any(item.usage.unconfirmed_calls for item in found)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_no_run_is_billed_above_its_cap(tmp_path, share):
    options = argparse.Namespace(cap_usd=0.05, at_once=4, seed=3)
    settings = {"openai_idle_timeout_s": 1, "openai_attempts": 2}
    with (
        ModelServer(dict.fromkeys(FAULTS, share / len(FAULTS)), seed=3).running() as server,
        GeneratorProcess(tmp_path, server.url, settings) as process,
    ):
        runs = asyncio.run(cost_caps.measure(server, process, tmp_path, options, 4, kills=False))
    assert cost_caps.show("runs", runs, 50_000, faultless=not share)
    assert all(run.billed > 0 for run in runs)


def test_the_local_models_price_file_is_one(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(price_file())
    assert len(read_table(path).models) == 1
