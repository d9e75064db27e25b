"""Somebody outside answers in place of a model, through the real server."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from integration.generator.conftest import KERNEL, candidate_of, generator, passed

from adaexplore.client.generator import GeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from adaexplore.types.v1 import kernel_pb2

ROOT = Path(__file__).parents[3]
FENCED = f"One pass.\n```python\n{KERNEL}```\n"
WAIT = Duration(seconds=30)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with generator(tmp_path_factory.mktemp("external"), default_provider="external") as address:
        yield address


@pytest.fixture
def client(address):
    with GeneratorClient(address) as client:
        yield client


@pytest.fixture
def asked(client, request_kernel):
    """Start a generation in a thread; `candidate()` is what comes of it."""
    threads = []

    def start(*window, **fields):
        found = []
        thread = threading.Thread(
            target=lambda: found.append(candidate_of(client.generate_kernel(request_kernel(*window, provider="external", **fields), 60)))
        )
        thread.start()
        threads.append(thread)

        def candidate():
            thread.join(60)
            return found[0]

        return candidate

    yield start
    for thread in threads:
        thread.join(60)


def claimed(client, **fields):
    return client.claim_request(pb.ClaimRequestRequest(worker="test", wait=WAIT, **fields), 60).request


def test_a_prompt_is_claimed_and_its_answer_becomes_the_kernel(client, asked):
    candidate = asked()
    request = claimed(client)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert "class Model: pass" in request.messages[1].content
    assert request.lease_expire_time.ToSeconds() > time.time() + 500
    client.submit_reply(pb.SubmitReplyRequest(lease_token=request.lease_token, text=FENCED, input_tokens=7, output_tokens=5), 30)
    found = candidate()
    assert (found.outcome, found.kernel.source.strip()) == (pb.GENERATE_OUTCOME_KERNEL, KERNEL.strip())
    assert (found.provider, found.model, found.summary) == ("external", "test", "One pass.")
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.calls, found.usage.cost_micro_usd) == (7, 5, 1, 0)


def test_a_local_move_asks_for_a_review_and_then_for_edits(client, asked):
    candidate = asked((KERNEL, passed()))
    for text in ("1. Double it.", "<<<<<<< SEARCH\n        return x * 1.0\n=======\n        return x * 2.0\n>>>>>>> REPLACE\n"):
        request = claimed(client)
        client.submit_reply(pb.SubmitReplyRequest(lease_token=request.lease_token, text=text), 30)
    assert "x * 2.0" in candidate().kernel.source


def test_a_refusal_is_an_outcome(client, asked):
    candidate = asked()
    client.submit_reply(pb.SubmitReplyRequest(lease_token=claimed(client).lease_token, refusal="too hard"), 30)
    found = candidate()
    assert (found.outcome, "too hard" in found.message) == (pb.GENERATE_OUTCOME_REFUSED, True)


def test_a_cost_limit_does_not_limit_who_is_not_paid_by_us(client, asked):
    candidate = asked(max_cost_micro_usd=0)
    client.submit_reply(pb.SubmitReplyRequest(lease_token=claimed(client).lease_token, text=FENCED), 30)
    assert candidate().outcome == pb.GENERATE_OUTCOME_KERNEL


def test_without_a_prompt_a_claim_comes_back_empty(client):
    assert not client.claim_request(pb.ClaimRequestRequest(worker="test"), 30).HasField("request")


def test_a_generation_that_is_cancelled_takes_its_prompt_back(client, request_kernel):
    stream = client.generate_kernel(request_kernel(provider="external"), 60)
    next(stream)
    request = claimed(client)
    stream.close()
    deadline = time.monotonic() + 30
    while True:
        try:
            client.claim_request(pb.ClaimRequestRequest(lease_token=request.lease_token), 30)
        except FailedPreconditionError as error:
            lost = error
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert lost.reason == "LEASE_LOST"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c: c.claim_request(pb.ClaimRequestRequest(worker="x" * 129), 30), "worker"),
        (lambda c: c.claim_request(pb.ClaimRequestRequest(lease=Duration(seconds=0)), 30), "lease"),
        (lambda c: c.claim_request(pb.ClaimRequestRequest(lease=Duration(seconds=90_000)), 30), "lease"),
        (lambda c: c.claim_request(pb.ClaimRequestRequest(wait=Duration(seconds=61)), 30), "wait"),
        (lambda c: c.submit_reply(pb.SubmitReplyRequest(text="x"), 30), "lease_token"),
        (lambda c: c.submit_reply(pb.SubmitReplyRequest(lease_token="x"), 30), "text"),
        (lambda c: c.submit_reply(pb.SubmitReplyRequest(lease_token="x", text="x" * (1 << 20) + "x"), 30), "text"),
        (lambda c: c.submit_reply(pb.SubmitReplyRequest(lease_token="x", text="x", input_tokens=-1), 30), "input_tokens"),
    ],
)
def test_a_wrong_field_is_named(client, call, field):
    with pytest.raises(InvalidArgumentError) as caught:
        call(client)
    assert caught.value.violations[0].field == field


def test_an_answer_of_a_lease_that_never_was_is_refused(client):
    with pytest.raises(FailedPreconditionError) as caught:
        client.submit_reply(pb.SubmitReplyRequest(lease_token="none", text="x"), 30)
    assert caught.value.reason == "LEASE_LOST"


def test_a_prompt_that_nobody_answers_ends_and_nothing_was_paid(tmp_path, request_kernel):
    with generator(tmp_path, external_patience_s=0.5) as address, GeneratorClient(address) as client:
        with pytest.raises(UnavailableError, match="nobody has answered") as caught:
            list(client.generate_kernel(request_kernel(provider="external"), 60))
        assert caught.value.reason == "PROVIDER_UNREACHABLE"
        request_id = request_kernel().request_id
        assert client.get_usage(pb.GetUsageRequest(request_id=request_id), 30).usage.calls == 0


def test_an_answer_reaches_a_generation_that_waits_at_another_replica(tmp_path, request_kernel):
    with generator(tmp_path) as one, generator(tmp_path) as two, GeneratorClient(one) as asking, GeneratorClient(two) as answering:
        stream = asking.generate_kernel(request_kernel(provider="external"), 60)
        next(stream)
        answering.submit_reply(pb.SubmitReplyRequest(lease_token=claimed(answering).lease_token, text=FENCED), 30)
        assert candidate_of(stream).outcome == pb.GENERATE_OUTCOME_KERNEL


def test_the_example_answers_the_moves_of_a_search(address, client, asked):
    script = [sys.executable, str(ROOT / "examples" / "clients" / "python" / "answer.py"), address, "1"]
    candidate = asked(move=kernel_pb2.MOVE_STRUCTURAL)
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "class ModelNew: pass" in candidate().kernel.source
