import json
import logging
from contextlib import suppress

import pytest
from adaexplore_generator.domain import FinishReason, Message, Prompt, Reply, Sampling, Usage
from adaexplore_generator.errors import PromptTooLongError
from adaexplore_generator.providers.cassette import CassetteError, CassetteWriter, Entry, call_keys, read_cassette
from adaexplore_generator.providers.replay import RecordingEndpoint, ReplayEndpoint
from structlog.testing import capture_logs

from adaexplore.runtime.errors import AbortedError, FailedPreconditionError

USAGE = Usage(100, 30, 20, 5, calls=1, cost_micro_usd=None, cache_write_tokens=7)
SAMPLING = Sampling("openai", "m", 0.5, 100, seed=7)


def prompt(text):
    return Prompt((Message("system", "be brief"), Message("user", text)))


def reply(text, finish=FinishReason.STOP):
    return Reply(text, finish, "m-2026", USAGE, "", prompt(text).digest)


class Scripted:
    """Answers in order; an exception is raised."""

    name, host, default_model, attempts_that_may_be_paid = "openai", "h", "d", 2

    def __init__(self, *answers):
        self._answers = list(answers)

    async def complete(self, prompt, sampling, received, name=""):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def record(path, *turns):
    """Record turns of a prompt's text and its answer."""
    cassette = CassetteWriter(path)
    endpoint = RecordingEndpoint(Scripted(*(answer for _, answer in turns)), cassette)
    for text, answer in turns:
        with suppress(PromptTooLongError, AbortedError):
            assert await endpoint.complete(prompt(text), SAMPLING, lambda _: None) == answer
    cassette.close()


async def replayed(endpoint, text, sampling=SAMPLING):
    return await endpoint.complete(prompt(text), sampling, lambda _: None)


async def test_replies_come_back_whole_and_in_order(tmp_path):
    path = tmp_path / "c"
    odd = reply("\x00 \u2028 😀 é", FinishReason.LENGTH)
    await record(path, ("a", odd), ("b", reply("two")), ("a", reply("three", FinishReason.FILTERED)))
    endpoint = ReplayEndpoint(path)
    assert [await replayed(endpoint, text) for text in ("a", "a", "b")] == [odd, reply("three", FinishReason.FILTERED), reply("two")]
    with pytest.raises(FailedPreconditionError, match="not given already") as caught:
        await replayed(endpoint, "a")
    assert caught.value.reason == "PROVIDER_REFUSED_REQUEST"


@pytest.mark.parametrize(
    "sampling", [Sampling("replay", "m", 0.5, 100, seed=8), Sampling("replay", "m", 0.6, 100, 7), Sampling("replay", "other", 0.5, 100, 7)]
)
async def test_another_way_of_asking_is_another_prompt(tmp_path, sampling):
    await record(tmp_path / "c", ("a", reply("one")))
    with pytest.raises(CassetteError, match="repeat the recorded run"):
        await replayed(ReplayEndpoint(tmp_path / "c"), "a", sampling)


async def test_whoever_replays_may_leave_provider_and_model_out(tmp_path):
    await record(tmp_path / "c", ("a", reply("one")))
    assert await replayed(ReplayEndpoint(tmp_path / "c"), "a", Sampling("", "", 0.5, 100, 7)) == reply("one")


async def test_numbers_may_differ_where_nothing_fits_exactly(tmp_path):
    await record(tmp_path / "c", ("it took 12.5 us", reply("one")), ("it took 9 us", reply("two")), ("it failed", reply("three")))
    endpoint = ReplayEndpoint(tmp_path / "c")
    with capture_logs() as logs:
        found = [await replayed(endpoint, text) for text in ("it took 9 us", "it took 1.25e-3 us")]
    assert found == [reply("two"), reply("one")]
    assert [line["event"] for line in logs] == ["replayed_with_other_numbers"]
    with pytest.raises(CassetteError):
        await replayed(endpoint, "it took 3 us")


async def test_faults_are_not_recorded_but_a_prompt_that_was_too_long_is(tmp_path):
    turns = (("a", AbortedError("broke off", reason="X")), ("a", PromptTooLongError("too long")), ("a", reply("one")))
    await record(tmp_path / "c", *turns)
    endpoint = ReplayEndpoint(tmp_path / "c")
    with pytest.raises(PromptTooLongError, match="too long"):
        await replayed(endpoint, "a")
    assert await replayed(endpoint, "a") == reply("one")


async def test_a_half_written_line_is_passed_over_and_recorded_behind(tmp_path):
    path = tmp_path / "c"
    await record(path, ("a", reply("one")), ("b", reply("two")))
    path.write_bytes(path.read_bytes()[:-40])
    await record(path, ("c", reply("three")))
    with capture_logs() as logs:
        keys = [entry.key for entry in read_cassette(path)]
    assert keys == [call_keys("openai", "m", prompt(text), SAMPLING)[0] for text in ("a", "c")]
    assert [(line["event"], line["line"]) for line in logs] == [("cassette_line_passed_over", 3)]


async def test_a_cassette_holds_replies_and_neither_prompts_nor_an_open_door(tmp_path):
    await record(tmp_path / "c", ("the secret of the prompt", reply("one")))
    text = (tmp_path / "c").read_text()
    assert "secret" not in text
    assert json.loads(text.splitlines()[0]) == {"cassette": 1}
    assert (tmp_path / "c").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "no json\n", '{"cassette": 9}\n', "[]\n"])
async def test_what_is_no_cassette_is_said_to_be_none(tmp_path, content):
    path = tmp_path / "c"
    path.write_text(content)
    with pytest.raises(CassetteError, match="cassette"):
        await ReplayEndpoint(path).list_models()
    if content:
        with pytest.raises(CassetteError, match="cassette"):
            CassetteWriter(path)


async def test_a_place_that_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(CassetteError, match="nowhere: No such file"):
        await ReplayEndpoint(tmp_path / "nowhere").list_models()
    with pytest.raises(CassetteError, match="cannot write"):
        CassetteWriter(tmp_path / "nowhere" / "c")
    assert await ReplayEndpoint(None).list_models() == ()
    with pytest.raises(CassetteError, match="ADAEXPLORE_GENERATOR_REPLAY_FILE"):
        await replayed(ReplayEndpoint(None), "a")


async def test_a_reply_is_not_lost_when_it_cannot_be_recorded(tmp_path):
    class Full:
        def append(self, entry: Entry) -> None:
            raise OSError(28, "No space left on device")

    with capture_logs() as logs:
        endpoint = RecordingEndpoint(Scripted(reply("one")), Full())
        assert await replayed(endpoint, "a") == reply("one")
    assert [(line["event"], line["log_level"]) for line in logs] == [("reply_not_recorded", logging.getLevelName(40).lower())]


def test_a_recorded_endpoint_says_what_it_says_itself():
    endpoint = RecordingEndpoint(Scripted(), None)
    assert (endpoint.name, endpoint.host, endpoint.default_model, endpoint.attempts_that_may_be_paid) == ("openai", "h", "d", 2)
