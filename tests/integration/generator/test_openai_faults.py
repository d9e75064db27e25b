import datetime
import email.utils
import socket
import subprocess
import sys

import pytest
from integration.generator.conftest import KERNEL, candidate_of, failed, generator
from integration.generator.fake_endpoint import chunk, endpoint, resets, says, stalls, status, streams, whole

from adaexplore.client.generator import GeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    ServiceError,
    UnavailableError,
)

FENCED = f"```python\n{KERNEL}```"
SECRET = "sk-secret"


def refused(generate, request):
    with pytest.raises(ServiceError) as caught:
        generate(request)
    assert caught.value.domain == "generator.adaexplore"
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_named_but_never_shown(fake, generate, request_kernel, state_dir, code):
    fake.script(status(code, {"error": {"message": f"Incorrect API key provided: {SECRET}", "code": "invalid_api_key"}}))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (PermissionDeniedError, "KEY_REFUSED")
    assert "ADAEXPLORE_GENERATOR_OPENAI_API_KEY" in error.message
    assert fake.requests[0][1]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in (state_dir / "log").read_text()
    assert len(fake.prompts) == 1


@pytest.mark.parametrize(
    "body", [{"error": {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}}, "<html>nothing here</html>"]
)
def test_an_unknown_model_is_not_found(fake, generate, request_kernel, body):
    fake.script(status(404, body))
    error = refused(generate, request_kernel(model=pb.ModelSpec(provider="openai", model="gpt-9")))
    assert (type(error), error.reason) == (NotFoundError, "MODEL_UNKNOWN")
    assert "gpt-9" in error.message


def test_a_busy_endpoint_is_asked_again_as_late_as_it_says(fake, generate, request_kernel):
    fake.script(status(429, {}, retry_after="0"), status(429, {}, retry_after="0.1"), says(FENCED))
    assert generate(request_kernel()).usage.calls == 1
    assert len(fake.prompts) == 3


def test_an_endpoint_that_stays_busy_is_resource_exhausted_with_its_own_wait(fake, generate, request_kernel):
    fake.script(*[status(429, {"error": {"message": "slow down"}}, retry_after="1")] * 3)
    error = refused(generate, request_kernel())
    assert (type(error), error.reason, error.retry_after_s) == (ResourceExhaustedError, "PROVIDER_BUSY", 1.0)
    assert len(fake.prompts) == 3


def test_a_wait_longer_than_we_are_willing_to_is_passed_on_at_once_and_spares_the_endpoint(tmp_path, request_kernel):
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=900)
    with endpoint() as fake, generator(tmp_path, openai_base_url=fake.url) as address, GeneratorClient(address) as client:
        fake.script(status(429, {}, retry_after=email.utils.format_datetime(later, usegmt=True)), says(FENCED))
        for request_id in ("a", "b"):
            error = refused(lambda request: candidate_of(client.generate_kernel(request)), request_kernel(request_id=request_id))
            assert error.reason == "PROVIDER_BUSY"
            assert 600 < error.retry_after_s <= 900
        assert len(fake.prompts) == 1


def test_an_account_without_credit_is_not_asked_again(fake, generate, request_kernel):
    fake.script(status(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (FailedPreconditionError, "PROVIDER_REFUSED_REQUEST")
    assert len(fake.prompts) == 1


@pytest.mark.parametrize("code", [502, 503])
def test_an_endpoint_that_is_down_for_a_moment_is_asked_again(fake, generate, request_kernel, code):
    fake.script(status(code, "bad gateway", retry_after="0"), says(FENCED))
    assert generate(request_kernel()).kernel.source == KERNEL


def test_a_failure_that_may_have_cost_money_is_not_repeated(fake, generate, request_kernel):
    fake.script(status(500, {"error": "boom"}), says(FENCED))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert "HTTP 500" in error.message
    assert "boom" in error.message
    assert len(fake.prompts) == 1


def test_a_connection_that_is_reset_midway_is_typed_and_not_repeated(fake, generate, request_kernel):
    fake.script(resets("half a rep"), says(FENCED))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert fake.url in error.message
    assert len(fake.prompts) == 1


@pytest.mark.parametrize("fault", [resets("half a rep"), streams(chunk("half a rep"), done=False), status(500, {"error": "boom"})])
def test_no_channel_repeats_a_call_that_may_have_been_paid_for(fake, client, request_id, fault):
    fake.script(fault, says("You cannot use `tl.foo`."))
    request = pb.DistillSkillRequest(request_id=request_id, kernel={"source": KERNEL}, evaluation=failed())
    error = refused(lambda request: client.distill_skill(request, timeout_s=60), request)
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert len(fake.prompts) == 1


def test_a_stream_that_ends_without_an_end_broke_off(fake, generate, request_kernel):
    fake.script(streams(chunk("half a rep"), done=False))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert "broke off after 10 characters" in error.message


def test_an_endpoint_that_falls_silent_is_given_up(fake, generate, request_kernel):
    fake.script(stalls(fake, "half a rep"))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert "sent nothing for 4 s" in error.message
    assert fake.gone.wait(20)


@pytest.mark.parametrize(
    ("answer", "says_what"),
    [
        (streams('data: {"choices":[{"del', done=False), "malformed JSON"),
        (streams("data: 17\n\n"), "not an object"),
        (streams('data: {"choices": {"a": 1}}\n\n'), "not a list"),
        (streams('data: {"choices": [17]}\n\n'), "not an object"),
        (streams('data: {"choices": [{"delta": {"content": 17}}]}\n\n'), "not text"),
        (streams({"choices": []}), "no choices"),
        (streams(), "no choices"),
        (whole({"choices": []}), "no choices"),
        (whole("<html>hello</html>", "text/html"), "malformed JSON"),
        (status(302, location="http://127.0.0.1:1/"), "redirects"),
    ],
)
def test_what_is_not_the_protocol_is_called_so(fake, generate, request_kernel, answer, says_what):
    fake.script(answer)
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_PROTOCOL")
    assert says_what in error.message


def test_an_error_inside_a_stream_is_passed_on(fake, generate, request_kernel):
    fake.script(streams(chunk("half"), {"error": {"message": f"out of memory {SECRET}"}}))
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (AbortedError, "PROVIDER_UNREACHABLE")
    assert "out of memory [key]" in error.message


@pytest.mark.parametrize(
    ("complaint", "field", "then"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens", "max_completion_tokens"),
        ("Unrecognized request argument supplied: stream_options", "stream_options", None),
        ("Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature", None),
        ("extra fields not permitted", "stream_options", None),
        ("seed: Extra inputs are not permitted", "seed", None),
    ],
)
def test_a_field_that_an_endpoint_refuses_is_left_out_or_renamed_and_remembered(
    fake, generate, request_kernel, request_id, complaint, field, then
):
    model = pb.ModelSpec(provider="openai", model=f"model-{field}-{len(complaint)}", temperature=0.5)
    fake.script(status(400, {"error": {"message": complaint}}), says(FENCED), says(FENCED))
    assert generate(request_kernel(model=model)).usage.calls == 1
    generate(request_kernel(model=model, request_id=request_id + "-b"))
    first, second, third = fake.prompts
    assert field in first
    assert field not in second
    assert then is None or second[then] == first[field]
    assert second.keys() == third.keys()


def test_a_request_that_is_refused_for_good_is_typed(fake, generate, request_kernel):
    fake.script(*[status(400, {"error": {"message": "messages are not to my liking"}})] * 2)
    error = refused(generate, request_kernel())
    assert (type(error), error.reason) == (FailedPreconditionError, "PROVIDER_REFUSED_REQUEST")
    assert "not to my liking" in error.message
    assert len(fake.prompts) == 1


def test_a_model_with_a_small_context_gets_a_shorter_prompt(fake, generate, request_kernel):
    too_long = status(400, {"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}})
    fake.script(too_long, too_long, says(FENCED))
    task = {"name": "t", "source": "class Model: pass\n" + "# padding\n" * 20_000}
    candidate = generate(request_kernel(task=task))
    sizes = [len(body["messages"][1]["content"]) for body in fake.prompts]
    assert candidate.usage.calls == 1
    assert sizes[0] > 2 * sizes[1] > 3 * sizes[2]
    assert [body["max_tokens"] for body in fake.prompts] == [16384, 6553, 2457]


def test_a_model_with_hopelessly_little_context_is_typed(fake, generate, request_kernel):
    fake.script(*[status(400, {"error": {"message": "maximum context length is 16 tokens"}})] * 4)
    error = refused(generate, request_kernel())
    assert error.reason == "PROVIDER_REFUSED_REQUEST"
    assert "maximum context length is 16 tokens" in error.message


def test_a_cost_limit_is_refused_while_prices_are_unknown(fake, generate, request_kernel):
    fake.script()
    error = refused(generate, request_kernel(max_cost_micro_usd=10**9))
    assert (type(error), error.reason) == (FailedPreconditionError, "PRICE_UNKNOWN")
    assert not fake.requests


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"request_id": ""}, "request_id"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"move": 0}, "move"),
        ({"move": 1}, "context"),
        ({"task": {"name": "t"}}, "task.source"),
        ({"model": pb.ModelSpec(temperature=3)}, "model.temperature"),
        ({"model": pb.ModelSpec(max_output_tokens=-1)}, "model.max_output_tokens"),
        ({"max_cost_micro_usd": -1}, "max_cost_micro_usd"),
        ({"pool": [pb.ContextKernel()]}, "pool[0].kernel.source"),
        ({"pool": [pb.ContextKernel(kernel={"source": "x", "digest": "0" * 64})]}, "pool[0].kernel.digest"),
        ({"pool": [pb.ContextKernel(kernel={"source": "x"}, recipe="r" * 65537)]}, "pool[0].recipe"),
        ({"task": {"source": "x", "precision": 77}}, "precision_class"),
    ],
)
def test_a_wrong_field_is_named(fake, generate, request_kernel, fields, field):
    fake.script()
    error = refused(generate, request_kernel(**fields))
    assert (type(error), error.reason) == (InvalidArgumentError, "REQUEST_INVALID")
    assert [violation.field for violation in error.violations] == [field]
    assert not fake.requests


def test_an_unknown_provider_is_not_found(generate, request_kernel):
    error = refused(generate, request_kernel(provider="oracle"))
    assert (type(error), error.reason) == (NotFoundError, "PROVIDER_UNKNOWN")
    assert "templates, openai" in error.message


def test_models_are_listed_page_by_page_the_default_provider_first(fake, client):
    fake.script()
    first = client.list_models(pb.ListModelsRequest(page_size=2))
    rest = client.list_models(pb.ListModelsRequest(page_size=2, page_token=first.next_page_token))
    assert [model.model for model in (*first.models, *rest.models)] == ["fake-1", "fake-2", "templates", "external"]
    assert rest.next_page_token == ""
    only = client.list_models(pb.ListModelsRequest(provider="templates"))
    assert [(model.provider, model.free) for model in only.models] == [("templates", True)]


def test_an_endpoint_without_a_list_of_models_says_so(fake, client):
    fake.script()
    fake.models = lambda handler: handler.whole(404, "nothing", {})
    with pytest.raises(UnavailableError, match="lists no models") as caught:
        client.list_models(pb.ListModelsRequest(provider="openai"))
    assert caught.value.reason == "PROVIDER_PROTOCOL"


def test_without_a_named_model_the_first_that_the_endpoint_lists_is_asked(fake, generate, request_kernel):
    fake.script(says(FENCED))
    generate(request_kernel())
    assert fake.prompts[0]["model"] == "fake-1"


def test_a_missing_key_is_named_before_anything_is_sent(tmp_path, request_kernel):
    with generator(tmp_path) as address, GeneratorClient(address) as client:
        error = refused(lambda request: list(client.generate_kernel(request)), request_kernel())
        models = client.list_models(pb.ListModelsRequest()).models
    assert (type(error), error.reason) == (FailedPreconditionError, "KEY_MISSING")
    assert "OPENAI_API_KEY" in error.message
    assert [model.provider for model in models] == ["templates", "external"]


def test_an_endpoint_that_is_not_there_is_unreachable_with_its_url(tmp_path, request_kernel):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with generator(tmp_path, openai_base_url=url, openai_attempts=2, openai_model="m") as address, GeneratorClient(address) as client:
            error = refused(lambda request: list(client.generate_kernel(request)), request_kernel())
    assert (type(error), error.reason) == (UnavailableError, "PROVIDER_UNREACHABLE")
    assert url in error.message


def test_a_local_server_needs_no_key_and_a_paid_reply_survives_a_restart(tmp_path, request_kernel):
    request = request_kernel()
    with endpoint() as fake:
        fake.script(says(FENCED))
        answers = []
        for _ in range(2):
            with generator(tmp_path, openai_base_url=fake.url) as address, GeneratorClient(address) as client:
                answers.append(candidate_of(client.generate_kernel(request)))
        assert answers[0] == answers[1]
        assert answers[0].kernel.source == KERNEL
        assert len(fake.prompts) == 1
        assert "authorization" not in {name.lower() for name in fake.requests[0][1]}


def test_a_store_that_cannot_be_written_refuses_before_anything_is_paid(tmp_path, request_kernel):
    (tmp_path / "generator.db").mkdir()
    with endpoint() as fake, generator(tmp_path, openai_base_url=fake.url) as address, GeneratorClient(address) as client:
        fake.script(says(FENCED))
        error = refused(lambda request: list(client.generate_kernel(request)), request_kernel())
        assert (type(error), error.reason) == (UnavailableError, "STORE_UNAVAILABLE")
        assert not fake.prompts


def test_a_server_told_to_stop_drains(tmp_path, request_kernel):
    with endpoint() as fake, generator(tmp_path, openai_base_url=fake.url, drain_s=1) as address, GeneratorClient(address) as client:
        fake.script(stalls(fake, "half"))
        stream = client.generate_kernel(request_kernel(), timeout_s=60)
        next(stream)
        assert fake.stalled.wait(20)
    assert fake.gone.wait(20)


@pytest.mark.parametrize(
    ("variable", "value", "says_what"),
    [
        ("ADAEXPLORE_GENERATOR_OPENAI_BASE_URL", "localhost:8000", "http://"),
        ("OPENAI_BASE_URL", "ftp://host/v1", "http://"),
        ("ADAEXPLORE_GENERATOR_OPENAI_BASE_URL", "http://user:word@host/v1", "credentials"),
        ("ADAEXPLORE_GENERATOR_OPENAI_API_KEY", "sk-é", "no key has"),
        ("ADAEXPLORE_GENERATOR_DEFAULT_PROVIDER", "oracle", "templates"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_its_variable_and_no_value(tmp_path, variable, value, says_what):
    done = subprocess.run(
        [sys.executable, "-m", "adaexplore_generator", "--state-dir", str(tmp_path)],
        env={variable: value},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    line = done.stderr.strip()
    assert "\n" not in line
    assert says_what in line
    assert "word" not in line
    assert "sk-" not in line
