import json
import threading

import pytest
from integration.generator.conftest import KERNEL, candidate_of, failed, passed
from integration.generator.fake_endpoint import USAGE, chunk, says, stalls, status, streams, whole

from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import InvalidArgumentError

FENCED = f"It scales.\n```python\n{KERNEL}```"


def edit(search, replace):
    return f"A small change.\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def outcome(name):
    return getattr(pb, f"GENERATE_OUTCOME_{name}")


def test_a_structural_move_is_one_streamed_call_that_ends_in_a_kernel(fake, client, request_kernel):
    fake.script(says(FENCED))
    messages = list(client.generate_kernel(request_kernel(), timeout_s=60))
    candidate = messages[-1].candidate
    assert {message.progress.stage for message in messages[:-1]} == {"proposing"}
    assert (candidate.outcome, candidate.kernel.source, candidate.summary) == (outcome("KERNEL"), KERNEL, "It scales.")
    assert (candidate.provider, candidate.model, candidate.message) == ("openai", "fake-1", "")
    assert len(candidate.kernel.digest) == len(candidate.prompt_digest) == 64
    body = fake.prompts[0]
    assert (body["stream"], body["stream_options"], body["max_tokens"], body["temperature"]) == (True, {"include_usage": True}, 16384, 1.0)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_usage_is_the_providers_own_and_an_unknown_cost_is_absent(fake, generate, request_kernel):
    fake.script(says(FENCED))
    usage = generate(request_kernel()).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens, usage.calls) == (100, 30, 20, 5, 1)
    assert not usage.HasField("cost_micro_usd")


def test_a_call_whose_usage_never_came_is_unconfirmed_at_its_worst_case(fake, generate, request_kernel):
    fake.script(says(FENCED, usage=None))
    usage = generate(request_kernel()).usage
    sent = sum(len(message["content"].encode()) for message in fake.prompts[0]["messages"])
    assert (usage.calls, usage.unconfirmed_calls, usage.input_tokens, usage.output_tokens) == (1, 1, 0, 0)
    assert usage.unconfirmed_tokens > sent + 16384
    assert not usage.HasField("cost_micro_usd")


def test_a_local_move_is_a_review_and_edits_of_the_newest_version(fake, generate, request_kernel):
    fake.script(says("1. Use 2.0."), says(edit("        return x * 1.0", "        return x * 2.0")))
    candidate = generate(request_kernel(("old = 1", failed()), (KERNEL, passed())))
    assert (candidate.outcome, candidate.summary) == (outcome("KERNEL"), "A small change.")
    assert candidate.kernel.source == KERNEL.replace("1.0", "2.0")
    assert (candidate.usage.calls, candidate.usage.input_tokens) == (2, 200)
    tuner = fake.prompts[1]["messages"][1]["content"]
    assert "1. Use 2.0." in tuner
    assert "no attribute foo" in tuner
    assert "1.500× the best baseline" in tuner


def test_no_review_is_paid_for_where_every_version_is_wrong(fake, generate, request_kernel):
    fake.script(says(edit("        return x * 1.0", "        return x")))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert (candidate.outcome, candidate.usage.calls) == (outcome("KERNEL"), 1)


def test_edits_that_do_not_fit_are_repaired_once_with_the_reason(fake, generate, request_kernel):
    fake.script(says(edit("nowhere", "x")), says(edit("        return x * 1.0", "        return x")))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert (candidate.outcome, candidate.usage.calls) == (outcome("KERNEL"), 2)
    assert "its SEARCH part is not in the kernel: 'nowhere'" in fake.prompts[1]["messages"][1]["content"]


def test_edits_that_never_fit_are_a_mismatch(fake, generate, request_kernel):
    fake.script(says(edit("nowhere", "x")), says(edit("nowhere else", "x")))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert candidate.outcome == outcome("EDIT_MISMATCH")
    assert "'nowhere else'" in candidate.message
    assert candidate.usage.calls == 2


def test_a_whole_file_instead_of_edits_is_taken(fake, generate, request_kernel):
    changed = KERNEL.replace("1.0", "3.0")
    fake.script(says(f"```python\n{changed}```"))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert (candidate.outcome, candidate.kernel.source) == (outcome("KERNEL"), changed)


def test_an_edit_that_breaks_the_file_is_not_python(fake, generate, request_kernel):
    fake.script(says(edit("        return x * 1.0", "        return (")))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert candidate.outcome == outcome("INVALID_PYTHON")
    assert candidate.kernel.source


def test_edits_that_leave_nothing_are_no_kernel(fake, generate, request_kernel):
    fake.script(says(edit(KERNEL.rstrip("\n"), "")))
    candidate = generate(request_kernel((KERNEL, failed())))
    assert (candidate.outcome, candidate.kernel.source) == (outcome("NO_CODE"), "")


def test_a_kernel_beyond_all_bounds_is_refused_and_not_sent_on(fake, generate, request_kernel):
    fake.script(says("```python\n" + "x = 1\n" * 400_000 + "```"))
    candidate = generate(request_kernel())
    assert (candidate.outcome, candidate.kernel.source) == (outcome("INVALID_PYTHON"), "")
    assert "longer than 1 MiB" in candidate.message


def test_an_edit_without_effect_is_asked_for_again_and_then_a_duplicate(fake, generate, request_kernel):
    fake.script(*[says(edit("        return x * 1.0", "        return x * 1.0  # fast"))] * 2)
    candidate = generate(request_kernel((KERNEL, failed())))
    assert (candidate.outcome, candidate.usage.calls) == (outcome("DUPLICATE"), 2)


def test_a_known_source_is_a_duplicate(fake, generate, request_kernel, request_id):
    fake.script(*[says(FENCED)] * 3)
    first = generate(request_kernel())
    again = generate(request_kernel(request_id=request_id + "-b", known_digests=[first.kernel.digest]))
    assert (again.outcome, again.kernel.digest) == (outcome("DUPLICATE"), first.kernel.digest)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (says(""), "EMPTY"),
        (says("Fuse it."), "NO_CODE"),
        (says("```python\nclass ModelNew(", finish="length"), "TRUNCATED"),
        (says("", finish="length"), "TRUNCATED"),
        (says("```python\nclass (\n```"), "INVALID_PYTHON"),
        (says("", finish="content_filter"), "REFUSED"),
        (streams(chunk(refusal="I will not do that."), chunk(finish="stop")), "REFUSED"),
        (says("I'm sorry, but I cannot help with this."), "REFUSED"),
        (says("\x00?"), "NO_CODE"),
        (streams('data: {"choices":[{"delta":{"content":"\\ud800 no code"},"finish_reason":"stop"}]}\n\n'), "NO_CODE"),
    ],
)
def test_whatever_a_model_writes_is_an_outcome_with_usage(fake, generate, request_kernel, answer, name):
    fake.script(answer)
    candidate = generate(request_kernel())
    assert candidate.outcome == outcome(name)
    assert candidate.message
    assert candidate.usage.calls == 1
    assert candidate.usage.input_tokens + candidate.usage.unconfirmed_tokens > 0


def test_thoughts_count_as_progress_but_are_no_code(fake, client, request_kernel):
    fake.script(streams(chunk(reasoning_content="hm " * 100), chunk(FENCED), chunk(finish="stop")))
    *_, last = client.generate_kernel(request_kernel(), timeout_s=60)
    assert last.candidate.kernel.source == KERNEL


def test_one_json_object_instead_of_a_stream_is_taken(fake, generate, request_kernel):
    message = {"role": "assistant", "content": FENCED}
    fake.script(whole({"model": "fake-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE}))
    candidate = generate(request_kernel())
    assert (candidate.outcome, candidate.usage.input_tokens) == (outcome("KERNEL"), 100)


def test_a_stream_in_one_byte_pieces_with_odd_separators_is_read(fake, generate, request_kernel):
    text = FENCED.replace("It scales.", "It\u2028scales.")

    def answer(handler):
        handler.begin_stream()
        for event in (chunk(text), chunk(finish="stop")):
            for byte in b"data:" + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n":
                handler.raw(bytes([byte]))

    fake.script(answer)
    assert generate(request_kernel()).kernel.source == KERNEL


def test_the_same_request_is_answered_from_the_store(fake, client, generate, request_kernel):
    fake.script(says("1. Use 2.0."), says(edit("        return x * 1.0", "        return x * 2.0")))
    request = request_kernel((KERNEL, passed()))
    first = generate(request)
    assert generate(request) == first
    assert len(fake.prompts) == 2


def test_the_same_id_for_another_request_is_refused(fake, generate, request_kernel):
    fake.script(says(FENCED))
    generate(request_kernel())
    with pytest.raises(InvalidArgumentError) as caught:
        generate(request_kernel(seed=5))
    assert (caught.value.reason, caught.value.violations[0].field) == ("REQUEST_INVALID", "request_id")
    assert len(fake.prompts) == 1


def test_two_calls_at_once_with_one_id_pay_once(fake, client, request_kernel):
    fake.script(says(FENCED))
    request, candidates = request_kernel(), []
    callers = [
        threading.Thread(target=lambda: candidates.append(candidate_of(client.generate_kernel(request, timeout_s=60)))) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(candidates) == 4
    assert all(candidate == candidates[0] for candidate in candidates)
    assert len(fake.prompts) == 1


def test_a_review_that_was_paid_for_is_kept_when_the_next_call_fails(fake, client, generate, request_kernel):
    fake.script(says("1. Use 2.0."), status(500))
    request = request_kernel((KERNEL, passed()))
    with pytest.raises(Exception, match="HTTP 500"):
        generate(request)
    fake.script(says(edit("        return x * 1.0", "        return x * 2.0")))
    usage = generate(request).usage
    # The call that failed may have been paid for.
    assert (usage.calls, usage.unconfirmed_calls, usage.input_tokens) == (3, 1, 200)
    assert client.get_usage(pb.GetUsageRequest(request_id=request.request_id)).usage == usage
    assert len(fake.prompts) == 1


def test_a_cancelled_call_closes_the_stream_at_once(fake, client, request_kernel):
    fake.script(stalls(fake, "half a rep"))
    stream = client.generate_kernel(request_kernel(), timeout_s=60)
    next(stream)
    assert fake.stalled.wait(20)
    stream.close()
    assert fake.gone.wait(20)


def test_a_rule_is_distilled_from_a_failure(fake, client, request_id):
    fake.script(says("You cannot use tl.foo.\nInstead: use tl.bar."))
    request = pb.DistillSkillRequest(request_id=request_id, kernel={"source": KERNEL}, evaluation=failed())
    response = client.distill_skill(request, timeout_s=60)
    assert (response.rule, response.instead, response.usage.calls) == ("You cannot use tl.foo.", "use tl.bar.", 1)
    assert "no attribute foo" in fake.prompts[0]["messages"][1]["content"]
    assert client.distill_skill(request, timeout_s=60) == response


def test_a_failure_that_teaches_nothing_gives_no_rule(fake, client, request_id):
    fake.script(says("no guidance"))
    response = client.distill_skill(pb.DistillSkillRequest(request_id=request_id, kernel={"source": KERNEL}, evaluation=failed()))
    assert (response.rule, response.usage.calls) == ("", 1)


def test_a_duplicate_is_judged_by_its_number(fake, client, request_id):
    fake.script(says('{"duplicate_of": 1, "confidence": 0.8}'))
    request = pb.JudgeDuplicateRequest(request_id=request_id, rule="You cannot a.", known_rules=["You cannot b.", "You cannot A."])
    response = client.judge_duplicate(request, timeout_s=60)
    assert (response.duplicate_of, response.confidence) == (1, 0.8)
    assert "1: You cannot A." in fake.prompts[0]["messages"][1]["content"]


def test_without_known_rules_nothing_is_asked(fake, client, request_id):
    fake.script()
    response = client.judge_duplicate(pb.JudgeDuplicateRequest(request_id=request_id, rule="You cannot a."))
    assert not response.HasField("duplicate_of")
    assert response.usage.cost_micro_usd == 0
    assert not fake.prompts


def test_a_task_is_synthesized_from_seeds_and_operators(fake, client, request_id):
    source = "import torch\n\n\nclass Model:\n    pass\n\n\ndef get_inputs():\n    return []\n\n\ndef get_init_inputs():\n    return []\n"
    fake.script(says(f"```python\n{source}```"))
    request = pb.SynthesizeTaskRequest(request_id=request_id, seed_tasks=[{"source": "seed = 1"}], operators=["torch.nn.Softmax"])
    response = client.synthesize_task(request, timeout_s=60)
    assert response.task.source == source
    asked = fake.prompts[0]["messages"][1]["content"]
    assert "seed = 1" in asked
    assert "torch.nn.Softmax" in asked


def test_a_reply_without_a_task_gives_none(fake, client, request_id):
    fake.script(says("Let us see."))
    response = client.synthesize_task(pb.SynthesizeTaskRequest(request_id=request_id))
    assert not response.HasField("task")
    assert response.usage.calls == 1
