import asyncio
import base64

import pytest
from adaexplore_evaluator.admission import Admission, Recent, Stage
from adaexplore_evaluator.domain import CompileJob, DescribeJob, EvaluateJob, PhaseBudgets, Place, Snippet, StateMode, TaskSpec

from adaexplore.runtime.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError

PASSED = {"verdict": "VERDICT_PASSED", "timing": {"status": "TIMING_STATUS_ESTIMATED"}}


class Workers:
    def __init__(self, result=PASSED, size=1):
        self.result = result
        self.size = size
        self.jobs = []
        self.cancelled = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def do(self, job, task, progress):
        self.jobs.append(job)
        progress("CHECK", "comparing")
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return dict(self.result)


def job(**changes):
    fields = {
        "request_id": "",
        "task": TaskSpec("task.py", "class Model: ...", "", "fp32", "any"),
        "kernel": "class ModelNew: ...",
        "place": Place("sm_90"),
        "state_mode": StateMode.BY_NAME,
        "use_cache": True,
        "budgets": PhaseBudgets(30, 60, 120, 60),
    }
    return EvaluateJob(**{**fields, **changes})


def admission(workers, most_waiting=4):
    return Admission(workers, most_waiting, cached_results=8, artifact_bytes=1 << 20)


async def answers(gate, work):
    return [event async for event in gate.evaluate(work)]


async def test_stages_come_before_the_one_result():
    workers = Workers()
    *stages, result = await answers(admission(workers), job())
    assert stages == [Stage("QUEUED", "0 ahead"), Stage("CHECK", "comparing")]
    assert result["verdict"] == "VERDICT_PASSED"
    assert len(result["kernel_digest"]) == 64


async def test_the_same_candidate_again_is_answered_from_the_cache():
    workers = Workers()
    gate = admission(workers)
    await answers(gate, job())
    found = await answers(gate, job(kernel="class ModelNew: ...  # only a comment is new"))
    assert found[-1]["cached"] is True
    assert len(workers.jobs) == 1
    await answers(gate, job(use_cache=False))
    await answers(gate, job(place=Place("sm_80")))
    await answers(gate, job(state_mode=StateMode.SEEDED))
    await answers(gate, job(kernel="class ModelNew: pass"))
    assert len(workers.jobs) == 5


@pytest.mark.parametrize(
    "result",
    [
        {"verdict": "VERDICT_INCONCLUSIVE", "cause": "CAUSE_SHAPE_DEPENDENT"},
        {"verdict": "VERDICT_PASSED", "timing": {"status": "TIMING_STATUS_INCONCLUSIVE"}},
        {"verdict": "VERDICT_FAILED", "cause": "CAUSE_TIMEOUT"},
    ],
)
async def test_what_another_try_may_change_is_never_cached(result):
    workers = Workers(result)
    gate = admission(workers)
    await answers(gate, job())
    await answers(gate, job())
    assert len(workers.jobs) == 2


async def test_a_request_id_joins_the_work_in_flight():
    workers = Workers()
    workers.gate.clear()
    gate = admission(workers)
    callers = [asyncio.create_task(answers(gate, job(request_id="r", use_cache=False))) for _ in range(3)]
    await asyncio.sleep(0.01)
    workers.gate.set()
    found = await asyncio.gather(*callers)
    assert len(workers.jobs) == 1
    assert [events[-1]["verdict"] for events in found] == ["VERDICT_PASSED"] * 3


async def test_a_request_id_repeats_its_answer_and_names_one_work_only():
    workers = Workers({"verdict": "VERDICT_INCONCLUSIVE"})
    gate = admission(workers)
    await answers(gate, job(request_id="r"))
    await answers(gate, job(request_id="r"))
    assert len(workers.jobs) == 1
    with pytest.raises(InvalidArgumentError, match="request_id"):
        await answers(gate, job(request_id="r", kernel="other = 1"))


async def test_work_ends_when_its_last_caller_is_gone():
    workers = Workers()
    workers.gate.clear()
    gate = admission(workers)
    callers = [asyncio.create_task(answers(gate, job(request_id="r"))) for _ in range(2)]
    await asyncio.sleep(0.01)
    callers[0].cancel()
    await asyncio.sleep(0.01)
    assert workers.cancelled == 0
    callers[1].cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert workers.cancelled == 1
    workers.gate.set()
    await answers(gate, job(request_id="r"))
    assert len(workers.jobs) == 2


async def test_a_retry_while_cancelled_work_is_ending_gets_work_of_its_own():
    class Slow(Workers):
        ended = asyncio.Event()

        async def do(self, job, task, progress):
            try:
                return await super().do(job, task, progress)
            except asyncio.CancelledError:
                await self.ended.wait()
                raise

    workers = Slow()
    workers.gate.clear()
    gate = admission(workers)
    caller = asyncio.create_task(answers(gate, job(request_id="r")))
    await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    retry = asyncio.create_task(answers(gate, job(request_id="r")))
    await asyncio.sleep(0.01)
    assert workers.cancelled == 1
    workers.ended.set()
    await asyncio.sleep(0.01)
    second = asyncio.create_task(answers(gate, job(request_id="r")))
    await asyncio.sleep(0.01)
    workers.gate.set()
    found = await asyncio.gather(retry, second)
    assert [events[-1]["verdict"] for events in found] == ["VERDICT_PASSED"] * 2
    assert len(workers.jobs) == 2


async def test_a_full_queue_refuses_and_says_when_to_come_back():
    workers = Workers(size=2)
    workers.gate.clear()
    gate = admission(workers, most_waiting=1)
    calls = [gate.describe(DescribeJob(job().task, Place("sm_90"))), answers(gate, job()), answers(gate, job(kernel="other"))]
    running = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0.01)
    for call in (answers(gate, job(place=Place("sm_80"))), gate.describe(DescribeJob(job().task, Place("sm_90")))):
        with pytest.raises(ResourceExhaustedError) as refused:
            await call
        assert refused.value.reason == "QUEUE_FULL"
        assert refused.value.retry_after_s > 0
    workers.gate.set()
    await asyncio.gather(*running)
    assert (await answers(gate, job(place=Place("sm_80"))))[-1]["verdict"] == "VERDICT_PASSED"


async def test_a_burst_is_admitted_only_as_far_as_the_queue_reaches():
    workers = Workers()
    workers.gate.clear()
    gate = admission(workers, most_waiting=3)
    burst = [asyncio.create_task(answers(gate, job(kernel=f"number = {number}"))) for number in range(10)]
    await asyncio.sleep(0.01)
    workers.gate.set()
    found = await asyncio.gather(*burst, return_exceptions=True)
    assert [isinstance(events, ResourceExhaustedError) for events in found] == [False] * 4 + [True] * 6
    assert [events[0].message for events in found[:4]] == ["0 ahead", "0 ahead", "1 ahead", "2 ahead"]


async def test_work_that_is_cancelled_before_it_starts_gives_its_place_back():
    workers = Workers()
    gate = admission(workers, most_waiting=0)
    for _ in range(3):
        events = gate.evaluate(job(use_cache=False))
        await anext(events)
        await events.aclose()
        await asyncio.sleep(0.01)
    assert (await answers(gate, job()))[-1]["verdict"] == "VERDICT_PASSED"
    assert len(workers.jobs) == 1


async def test_an_error_of_ours_reaches_every_caller_and_is_not_kept():
    class Broken(Workers):
        async def do(self, job, task, progress):
            self.jobs.append(job)
            raise ResourceExhaustedError("broken")

    workers = Broken()
    gate = admission(workers)
    for _ in range(2):
        with pytest.raises(ResourceExhaustedError):
            await answers(gate, job(request_id="r"))
    assert len(workers.jobs) == 2


async def test_artefacts_are_kept_by_digest_in_chunks():
    data = bytes(range(256)) * 4096
    workers = Workers({"compiled": True, "contents": {"d": base64.b64encode(data).decode()}})
    gate = admission(workers)
    found = await gate.compile(CompileJob(Snippet("source", "k", {}, {}, 4, 3), "sm_90"))
    assert "contents" not in found
    chunks = gate.artifact("d")
    assert b"".join(chunks) == data
    assert max(map(len, chunks)) < 1 << 20
    with pytest.raises(NotFoundError):
        gate.artifact("other")


def test_the_oldest_entries_are_dropped_by_weight():
    recent = Recent(10, len)
    recent.put("a", b"12345")
    recent.put("b", b"12345")
    assert recent.get("a") == b"12345"
    recent.put("c", b"123")
    assert recent.get("b") is None
    assert recent.get("a") == b"12345"
    recent.put("a", b"1")
    recent.put("d", b"123456")
    assert recent.get("c") == b"123"


class Devices(Workers):
    """A GPU that measures, and a cpu device that counts."""

    async def do(self, job, task, progress):
        self.jobs.append(job)
        launch = {"name": "k", "registers": 32, "count": 1}
        timing = {"status": "TIMING_STATUS_MEASURED", "median_us": 10.0}
        platform = {"device": f"DEVICE_KIND_{job['device'].upper()}", "target": "sm_90"}
        counted = {"dram_bytes": 2e7} if job["job"] == "count" else {"latency_us": 10.0, "time_share": 1.0}
        return self.result | {"launches": [launch | counted], "timing": timing, "platform": platform}


async def test_a_profile_on_a_gpu_is_measured_there_and_counted_without_one():
    devices = Devices()
    *stages, found = await answers(admission(devices), job(place=Place("sm_90", "cuda", 1), profile=True))
    assert [(item["job"], item["device"], item["gpu"]) for item in devices.jobs] == [("evaluate", "cuda", 1), ("count", "cpu", None)]
    assert found["launches"][0]["bytes_per_second"] == pytest.approx(2e12)
    assert found["profile"]["text"]
    assert Stage("COMPILE", "counting the work of its kernels") in stages


async def test_only_what_passes_on_a_target_with_a_datasheet_is_counted():
    failing = Devices({"verdict": "VERDICT_FAILED"})
    await answers(admission(failing), job(place=Place("sm_90", "cuda"), profile=True))
    unknown = Devices()
    *_, found = await answers(admission(unknown), job(place=Place("sm_1", "cuda"), profile=True))
    assert len(failing.jobs) == len(unknown.jobs) == 1
    assert "no datasheet of sm_1" in found["profile"]["work_message"]
