"""Compiles one stand-alone kernel in a candidate's runner."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from adaexplore_evaluator.referee.clock import COMPILE, PhaseClock
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reports import failure
from adaexplore_evaluator.referee.rounds import ready_runner
from adaexplore_evaluator.referee.runners import Runner, RunnerEndedError, RunnerFailureError, RunnerForgedError, RunnerTimeoutError
from adaexplore_evaluator.referee.tasks import JobCancelledError
from adaexplore_evaluator.referee.values import MalformedReplyError, objects
from adaexplore_evaluator.referee.verdicts import REJECTED, Finding, from_end, from_report, signed, stop, timed_out
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import WireError

_KINDS = {"ptx": "PTX", "cubin": "CUBIN", "amdgcn": "AMDGCN", "hsaco": "HSACO", "ttgir": "TTGIR"}
_MAX_ARTIFACT_BYTES = 32 * 1024 * 1024
# The API's CompileKernelResponse knows these causes; anything else that a compilation ends in is the file's own doing.
_CAUSES = frozenset({"SYNTAX", "CONTRACT", "COMPILE", "LAUNCH", "TIMEOUT", "FAULT"})


class SnippetCompiler:
    """Compiles snippets, each in a runner of its own."""

    def __init__(self, fleet: Fleet, now_s: Callable[[], float]) -> None:
        self._fleet = fleet
        self._now_s = now_s

    def compile(self, snippet: JsonObject, clock: PhaseClock, cancelled: Callable[[], bool]) -> JsonObject:
        """JSON of a CompileKernelResponse without platform, and the artefacts' bytes as `contents`, in base64 by digest.

        Raises:
            WorkerLostError: The runner does not start.
            JobCancelledError: The caller gave up.

        """
        runner = ready_runner(self._fleet, self._now_s, cancelled)
        clock.begin(COMPILE, "compiling")
        try:
            reply = runner.command("compile_snippet", clock, **snippet)
            return _compiled(reply, runner, str(snippet.get("function_name")))
        except (RunnerFailureError, RunnerEndedError, RunnerForgedError, RunnerTimeoutError, MalformedReplyError, WireError) as error:
            if cancelled():
                raise JobCancelledError from error
            return _refused(_finding(error, clock, self._fleet.memory_bytes), str(snippet.get("source")))
        finally:
            self._fleet.release(runner)


def _finding(error: Exception, clock: PhaseClock, memory_bytes: int) -> Finding:
    if isinstance(error, RunnerFailureError):
        return from_report(error.error, clock.phase)
    if isinstance(error, RunnerTimeoutError):
        return timed_out(clock)
    if isinstance(error, RunnerEndedError):
        return from_end(error, clock, memory_bytes)
    return stop(REJECTED, "FAULT", clock.phase, f"the kernel's file disturbed the compiler's process ({error})").finding


def _refused(finding: Finding, source: str) -> JsonObject:
    cause = finding.cause if finding.cause in _CAUSES else "FAULT" if finding.cause == "OUT_OF_MEMORY" else "CONTRACT"
    return {"compiled": False, "cause": f"CAUSE_{cause}", "failure": failure(signed(finding, source).failure)}


def _compiled(reply: JsonObject, runner: Runner, name: str) -> JsonObject:
    resources = reply.get("resources")
    if not isinstance(resources, dict):
        raise MalformedReplyError("resources is no object")
    listed, contents = [], {}
    for artifact in objects(reply, "artifacts"):
        kind = _KINDS.get(str(artifact.get("kind")))
        if kind is None:
            continue
        data = runner.read_file(str(artifact.get("file")), _MAX_ARTIFACT_BYTES)
        digest = hashlib.sha256(data).hexdigest()
        listed.append({"kind": f"ARTIFACT_KIND_{kind}", "digest": digest, "size_bytes": len(data)})
        contents[digest] = base64.b64encode(data).decode()
    report = {
        "name": name,
        "count": 1,
        **{field: _count(resources, field) for field in ("registers", "spill_bytes", "shared_bytes")},
        "warps": _count(resources, "num_warps"),
    }
    return {"compiled": True, "resources": report, "artifacts": listed, "contents": contents}


def _count(resources: JsonObject, name: str) -> int:
    value = resources.get(name)
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise MalformedReplyError(f"{name} is no count")
    return value
