"""Results as the server receives them: the JSON mapping of the API's messages, without importing them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from adaexplore_evaluator.profiles import profiled
from adaexplore_evaluator.referee.audit import Audit
from adaexplore_evaluator.referee.rounds import Judgement
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.referee.timing import BaselineReport, LaunchReport, Timing, least_of
from adaexplore_evaluator.referee.verdicts import Failure
from adaexplore_evaluator.runner.frames import JsonObject

_LAUNCH_FIELDS = (
    *("name", "count", "registers", "spill_bytes", "shared_bytes", "warps", "occupancy", "dram_bytes", "flops", "latency_us"),
    *("bound_by", "time_share", "product_flops"),
)
_GRAPH_FIELDS = ("values", "calls", "outputs")


def evaluation(task: PreparedTask, judgement: Judgement, platform: JsonObject) -> JsonObject:
    """JSON of an Evaluation; the server adds the kernel's digest."""
    finding = judgement.finding
    result: JsonObject = {
        "task_digest": task.source.digest,
        "verdict": f"VERDICT_{finding.verdict if finding else 'PASSED'}",
        "phase": f"PHASE_{finding.phase if finding else 'TIMING'}",
        "timing": timing(judgement.timing),
        "launches": [launch(item) for item in judgement.timing.launches],
        "checks": [
            {"family": check.family, "passed": check.passed, "error": number(check.error), "budget": number(check.budget)}
            for check in judgement.checks
        ],
        "platform": platform,
        "precision": f"PRECISION_CLASS_{task.source.precision.upper()}",
        "track": f"TRACK_{task.source.track.upper()}",
        "phase_times": [{"phase": f"PHASE_{phase}", "elapsed": f"{seconds:.6f}s"} for phase, seconds in judgement.spent_s.items()],
    }
    if finding is not None:
        return result | {"cause": f"CAUSE_{finding.cause}", "failure": failure(finding.failure)}
    return profiled(result, judgement.timing.ceilings, least_of(task))


def description(task: PreparedTask, baselines: Sequence[BaselineReport], platform: JsonObject) -> JsonObject:
    """JSON of a DescribeTaskResponse."""
    full = task.full
    found: JsonObject = {
        "digest": task.source.digest,
        "format": f"TASK_FORMAT_{(task.format or 'unspecified').upper()}",
        "entry_point": task.entry_point,
        "audit": audit(task.audit),
    }
    if full:
        found |= {name: full.get(name, []) for name in ("init_inputs", "inputs", "outputs", "state")}
        found |= {"graph_absent_reason": full.get("graph_absent_reason", ""), "minimum_bytes": full.get("minimum_bytes", 0)}
        found |= {"flops": full.get("flops", 0), "judged_inputs": task.judged.get("inputs", [])}
        found |= _graphs(task)
    return {"description": found, "baselines": [baseline(item) for item in baselines], "platform": platform}


def audit(result: Audit) -> JsonObject:
    """JSON of a TaskAudit."""
    return {
        "valid": not result.cause,
        "cause": result.cause,
        "message": result.message,
        "controls": [{"name": item.name, "refused": item.refused, "error": number(item.error)} for item in result.controls],
        "reference_error": number(result.reference_error),
        "error_budget": number(result.error_budget),
    }


def failure(value: Failure) -> JsonObject:
    """JSON of a Failure."""
    return dict(vars(value))


def timing(value: Timing) -> JsonObject:
    """JSON of a Timing; unknown figures are left out."""
    return _present(
        {
            "status": f"TIMING_STATUS_{value.status}",
            "cause": f"TIMING_CAUSE_{value.cause}" if value.cause else None,
            "median_us": value.median_us,
            "speedup": value.speedup,
            "speedup_over_eager": value.speedup_over_eager,
            "baselines": [baseline(item) for item in value.baselines],
            "explanation": value.explanation,
            "speedup_low": value.speedup_low,
            "speedup_high": value.speedup_high,
            "end_to_end_us": value.end_to_end_us,
            "samples_us": list(value.samples_us),
            "cold": value.cold,
            "span_us": value.span_us,
            "cold_us": value.cold_us,
            "warm_us": value.warm_us,
            "setup_us": value.setup_us,
            "roofline_share": value.roofline_share,
            "first_look": value.first_look or None,
        }
    )


def baseline(value: BaselineReport) -> JsonObject:
    """JSON of a Baseline."""
    return {"kind": f"BASELINE_KIND_{value.kind.name}", "median_us": value.median_us, "launches": value.launches}


def launch(value: LaunchReport) -> JsonObject:
    """JSON of a LaunchReport; what is not known of a launch is left out."""
    found = {name: getattr(value, name, None) for name in _LAUNCH_FIELDS}
    return _present(found | {"grid": list(getattr(value, "grid", ()))})


def number(value: float) -> float | str:
    """A number as JSON can hold it; infinities and NaN by the names that the API's mapping uses."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _graphs(task: PreparedTask) -> JsonObject:
    graphs: JsonObject = {}
    for name, source in (("graph", task.full), ("judged_graph", task.judged)):
        graph = source.get("graph")
        if isinstance(graph, dict) and (name == "graph" or task.judged is not task.full):
            graphs[name] = {field: graph.get(field, []) for field in _GRAPH_FIELDS}
    return graphs


def _present(fields: Mapping[str, object]) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
