"""How each vendor's endpoints are asked, and how what they report is read."""

import json

import pytest
from adaexplore_generator.config import load
from adaexplore_generator.domain import FinishReason, Message, Prompt, Sampling
from adaexplore_generator.providers.anthropic import AnthropicApi, MessageReader, message_usage
from adaexplore_generator.providers.completions import CompletionReader, usage_of
from adaexplore_generator.providers.gemini import GeminiApi
from adaexplore_generator.providers.openai import OpenAIApi
from adaexplore_generator.providers.prefixes import PrefixMemory
from adaexplore_generator.providers.wire import GrowingText, ProtocolError, ReportedError
from integration.generator.fake_endpoint import message_events

from adaexplore.runtime.config import ConfigError

AZURE_V1 = "https://mine.openai.azure.com/openai/v1"
AZURE = "https://mine.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
PROMPT = Prompt((Message("system", "be brief"), Message("user", "hello")))
COUNTS = {"prompt_tokens": 100, "completion_tokens": 20}


@pytest.mark.parametrize(
    ("url", "chat", "header", "limit"),
    [
        ("", "https://api.openai.com/v1/chat/completions", "authorization", "max_completion_tokens"),
        (AZURE, AZURE.replace("/d?", "/d/chat/completions?"), "api-key", "max_completion_tokens"),
        (f"{AZURE_V1}/", f"{AZURE_V1}/chat/completions", "api-key", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions", "authorization", "max_tokens"),
        ("https://api.deepseek.com", "https://api.deepseek.com/chat/completions", "authorization", "max_tokens"),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions", "authorization", "max_tokens"),
    ],
)  # fmt: skip
def test_each_endpoint_of_the_openai_dialect_is_asked_in_its_way(url, chat, header, limit):
    api = OpenAIApi(url)
    assert api.chat_url == chat
    assert list(api.headers("key")) == [header]
    assert api.headers("") == {}
    assert limit in api.first_fields().body("m", PROMPT, Sampling())


@pytest.mark.parametrize(
    ("url", "sent"), [("", {"reasoning_effort": "low"}), ("https://openrouter.ai/api/v1", {"reasoning": {"effort": "low"}})]
)
def test_effort_is_sent_only_if_it_is_wished_and_left_out_if_it_is_refused(url, sent):
    fields = OpenAIApi(url).first_fields()
    plain, wished = (fields.body("m", PROMPT, Sampling(reasoning_effort=effort)) for effort in ("", "low"))
    assert {name: value for name, value in wished.items() if name not in plain} == sent
    (name,) = sent
    without = fields.after_refusal(f"Unsupported parameter: '{name}' is not supported with this model.")
    assert without.body("m", PROMPT, Sampling(reasoning_effort="low")) == plain


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (100, 0, 0, 20, 0)),
        ({"prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10}}, (100, 40, 10, 20, 0)),
        ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, (100, 64, 0, 20, 0)),
        ({"completion_tokens_details": {"reasoning_tokens": 15}, "total_tokens": 120}, (100, 0, 0, 20, 15)),
        ({"completion_tokens_details": {"reasoning_tokens": 15}, "total_tokens": 135}, (100, 0, 0, 35, 15)),
        ({"total_tokens": 999}, (100, 0, 0, 20, 0)),
        ({"prompt_tokens_details": {"cached_tokens": 4000}}, (100, 100, 0, 20, 0)),
        ({"prompt_tokens_details": [], "completion_tokens_details": "x", "total_tokens": True}, (100, 0, 0, 20, 0)),
    ],
)
def test_usage_is_read_as_each_vendor_reports_it(more, expected):
    usage = usage_of(COUNTS | more)
    found = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens, usage.reasoning_tokens)
    assert found == expected


def test_thoughts_of_gemini_are_what_its_total_has_beside():
    usage = usage_of(COUNTS | {"total_tokens": 553}, total_counts=True)
    assert (usage.output_tokens, usage.reasoning_tokens) == (453, 433)


def test_gemini_has_its_own_endpoint_names_and_safety_reasons():
    api = GeminiApi()
    assert api.chat_url == "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
    assert api.read_models({"data": [{"id": "models/gemini-2.5-flash"}, {"id": "plain"}]}).names == ("gemini-2.5-flash", "plain")
    for reason in ("SAFETY", "PROHIBITED_CONTENT", "content_filter: RECITATION", "content_filter"):
        reader = api.reader()
        reader.add(json.dumps({"choices": [{"delta": {}, "finish_reason": reason}]}))
        assert reader.build("m", PROMPT).finish is FinishReason.FILTERED


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource"])
def test_a_model_that_gave_up_midway_did_not_answer(reason):
    reader = CompletionReader()
    reader.add(json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": reason}]}))
    with pytest.raises(ReportedError, match=reason):
        reader.build("m", PROMPT)


def test_a_message_is_asked_for_with_its_stable_parts_marked():
    api = AnthropicApi()
    body = api.first_fields().body("m", PROMPT, Sampling(temperature=1.5, max_output_tokens=9))
    assert body == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "temperature": 1.0,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }
    assert api.headers("key") == {"anthropic-version": "2023-06-01", "x-api-key": "key"}


def test_what_user_messages_have_in_common_is_cached_from_the_second_on():
    api, task = AnthropicApi(), "the task\n" * 1000
    first, second, third = (
        api.first_fields().body("m", Prompt((Message("system", "s"), Message("user", f"{task}\n\n{tail}"))), Sampling())["messages"][0][
            "content"
        ]
        for tail in ("one", "two", "three")
    )
    assert first == [{"type": "text", "text": f"{task}\n\none"}]
    for blocks, tail in ((second, "two"), (third, "three")):
        assert blocks == [
            {"type": "text", "text": f"{task}\n\n", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": tail},
        ]


def test_prefixes_are_long_enough_bounded_and_of_one_system_message():
    memory, long = PrefixMemory(), "x" * 5000
    assert memory.ends("s", f"short\n\n{1}") == memory.ends("s", f"short\n\n{2}") == ()
    assert memory.ends("s", f"{long}\n\na") == memory.ends("other", f"{long}\n\nb") == ()
    assert memory.ends("s", f"{long}\n\nb") == (5002,)
    ends = [memory.ends("s", f"{long}\n\n" + f"{long}\n\n" * depth + f"tail {depth}") for depth in range(9)]
    assert all(len(found) <= 3 and list(found) == sorted(found) for found in ends)


@pytest.mark.parametrize(
    ("effort", "limit", "adaptive", "budget"),
    [
        ("", 10_000, None, None),
        ("none", 10_000, None, None),
        ("minimal", 10_000, "low", 1024),
        ("medium", 10_000, "medium", 5000),
        ("max", 10_000, "max", 9000),
        ("high", 1_000, "high", None),
    ],
)
def test_effort_is_a_level_for_new_models_and_a_budget_for_older_ones(effort, limit, adaptive, budget):
    sampling = Sampling(max_output_tokens=limit, reasoning_effort=effort)
    fields = AnthropicApi().first_fields()
    body = fields.body("m", PROMPT, sampling)
    assert body.get("output_config", {}).get("effort") == adaptive
    assert ("temperature" in body) is (adaptive is None)
    older = fields.after_refusal("adaptive thinking is not supported on this model")
    body = older.body("m", PROMPT, sampling)
    assert body.get("thinking", {}).get("budget_tokens") == budget
    assert ("temperature" in body) is (budget is None)
    none = older.after_refusal("thinking is not supported")
    assert "thinking" not in none.body("m", PROMPT, sampling)
    assert none.after_refusal("thinking is not supported") is None
    assert none.after_refusal("temperature is deprecated").after_refusal("temperature is deprecated") is None
    assert "cache_control" not in str(none.after_refusal("cache_control: Extra inputs").body("m", PROMPT, sampling))


def read(*events):
    reader = MessageReader()
    chars = sum(reader.add(json.dumps(event)) for event in events)
    return reader.build("asked", PROMPT), chars


def test_thoughts_of_a_message_count_as_progress_but_are_no_text():
    reply, chars = read(*message_events(("thinking", ["hm ", "so"]), ("text", ["It ", "scales."])))
    assert (reply.text, chars) == ("It scales.", 15)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.FILTERED),
    ],
)
def test_why_a_message_ended_is_read(stop, finish):
    assert read(*message_events(("text", ["x"]), stop=stop))[0].finish is finish


def test_a_whole_message_instead_of_events_is_taken():
    reader = MessageReader()
    usage = {"input_tokens": 1, "output_tokens": 2}
    body = {"type": "message", "model": "m", "content": [{"type": "text", "text": "x"}], "stop_reason": "max_tokens", "usage": usage}
    assert reader.add_whole(body) == 1
    reply = reader.build("asked", PROMPT)
    assert (reply.text, reply.model, reply.finish, reply.usage.tokens) == ("x", "m", FinishReason.LENGTH, 3)


@pytest.mark.parametrize("kind", ["overloaded_error", "rate_limit_error"])
def test_an_endpoint_too_busy_to_begin_generated_nothing_but_one_that_began_may_have(kind):
    error = json.dumps({"type": "error", "error": {"type": kind, "message": "Overloaded"}})
    with pytest.raises(ReportedError) as caught:
        MessageReader().add(error)
    assert caught.value.unstarted
    reader = MessageReader()
    reader.add(json.dumps(next(message_events())))
    with pytest.raises(ReportedError) as caught:
        reader.add(error)
    assert not caught.value.unstarted


@pytest.mark.parametrize(
    "event", [{}, {"type": "message_start"}, {"type": "message_start", "message": {}}, {"type": "content_block_delta", "delta": 7}, []]
)
def test_an_event_that_is_none_of_the_protocol_is_called_so(event):
    with pytest.raises(ProtocolError):
        MessageReader().add(json.dumps(event))


@pytest.mark.parametrize(
    "usage", [{}, {"input_tokens": 1}, {"input_tokens": "1", "output_tokens": 2}, {"input_tokens": -1, "output_tokens": 2}]
)
def test_usage_of_a_message_that_cannot_be_read_is_none(usage):
    assert message_usage(usage) is None


def test_input_of_a_message_is_the_total_with_what_was_cached():
    usage = message_usage({"input_tokens": 5, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7, "output_tokens": 9})
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens) == (42, 30, 7, 9)


def test_models_of_anthropic_come_page_by_page():
    api = AnthropicApi("http://127.0.0.1:1/")
    page = api.read_models({"data": [{"id": "a"}, {"id": "b"}, {}], "has_more": True, "last_id": "b/x"})
    assert (page.names, api.models_url(page.after)) == (("a", "b"), "http://127.0.0.1:1/v1/models?limit=1000&after_id=b%2Fx")
    assert api.read_models({"data": [], "has_more": False, "last_id": "b"}).after == ""


def test_growing_text_is_text_of_our_api_even_where_its_pieces_are_not():
    text = GrowingText()
    assert [text.add(piece) for piece in ("a\r\n", "\ud800", "é\U0001f600")] == [3, 1, 2]
    assert str(text) == "a\r\n?é\U0001f600"


@pytest.mark.parametrize(
    ("variable", "url", "good"),
    [
        ("OPENAI", AZURE, True),
        ("OPENAI", "https://host/v1?key=secret", False),
        ("OPENAI", "https://host/v1?api-version=1&key=secret", False),
        ("ANTHROPIC", "https://host/v1?api-version=1", False),
        ("GEMINI", "https://host/v1beta/openai", True),
    ],
)
def test_a_base_url_may_hold_azures_version_and_no_other_query(variable, url, good):
    environ = {f"ADAEXPLORE_GENERATOR_{variable}_BASE_URL": url}
    if good:
        assert load([], environ).endpoint(variable.lower()).base_url == url
        return
    with pytest.raises(ConfigError, match="api-version") as caught:
        load([], environ)
    assert "secret" not in str(caught.value)


def test_each_provider_has_its_own_key_and_limits():
    environ = {"ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "OPENAI_API_KEY": "o", "ANTHROPIC_BASE_URL": "http://h"}
    config = load(["--anthropic-tokens-per-minute", "9", "--gemini-hedge-after-s", "2"], environ)
    found = {name: config.endpoint(name) for name in ("openai", "anthropic", "gemini")}
    assert [endpoint.api_key for endpoint in found.values()] == ["o", "a", "g"]
    assert [endpoint.limits.tokens_per_minute for endpoint in found.values()] == [0, 9, 0]
    assert [endpoint.hedge_after_s for endpoint in found.values()] == [0, 0, 2]
    assert found["anthropic"].base_url == "http://h"
