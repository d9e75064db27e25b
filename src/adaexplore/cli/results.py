"""What a finished search leaves behind: the kernel file, the report, one summary line or one JSON object."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console

from adaexplore.cli.failures import CliError, ExitCode, in_flags
from adaexplore.cli.models import model_name
from adaexplore.cli.output import (
    Json,
    enum_name,
    evaluation_json,
    message_json,
    optional,
    print_json,
    timing_json,
    timing_words,
    usage_json,
)
from adaexplore.cli.report import write_report
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.generator.v1 import generator_pb2
from adaexplore.types.v1 import kernel_pb2, task_pb2

# Below this an improvement is the model's or the clock's rounding, not a reason to leave PyTorch: the estimate tells the same work done by
# another kernel apart by up to 2 %.
WORTHWHILE_SPEEDUP = 1.03
_WRONG_INPUT = (
    "DEVICE_NOT_AVAILABLE",
    "KEY_MISSING",
    "KEY_REFUSED",
    "MODEL_UNKNOWN",
    "PROVIDER_UNKNOWN",
    "REQUEST_INVALID",
    "TARGET_UNKNOWN",
)


async def all_nodes(client: AsyncControllerClient, search: str) -> list[pb.Node]:
    """Return every node of a search in order of creation."""
    nodes: list[pb.Node] = []
    token = ""
    while True:
        page = await client.list_nodes(pb.ListNodesRequest(parent=search, page_size=1000, page_token=token), timeout_s=60)
        nodes += page.nodes
        token = page.next_page_token
        if not token:
            return nodes


async def _all_events(client: AsyncControllerClient, search: pb.Search) -> list[pb.SearchEvent]:
    events = []
    async for response in client.watch_search(pb.WatchSearchRequest(name=search.name), timeout_s=60):
        events.append(response.event)
        if response.event.sequence >= search.last_sequence:
            break
    return events


async def finish(client: AsyncControllerClient, search: pb.Search, folder: Path, json_output: bool) -> ExitCode:
    """Write kernel and report, print the summary, and return the exit code.

    Raises:
        CliError: The search failed or its task is invalid.

    """
    if search.spec.HasField("ensemble"):
        search = (await client.get_search(pb.GetSearchRequest(name=search.name), timeout_s=30)).search
    nodes = await all_nodes(client, search.name)
    events = await _all_events(client, search)
    best = (await client.get_node(pb.GetNodeRequest(name=search.best_node), timeout_s=30)).node if search.best_node else None
    kernel = _write_kernel(search, best, folder) if best else None
    report = write_report(search, nodes, events, best, folder)
    if json_output:
        print_json(_result_json(search, nodes, events, best, kernel, report))
    else:
        Console(highlight=False, markup=False, soft_wrap=True).print(summary(search, best, kernel, report))
    if search.stop_reason == pb.STOP_REASON_TASK_INVALID:
        raise CliError(naming(search.spec.task.name, search.error_message), ExitCode.TASK_INVALID, json_printed=json_output)
    if search.state == pb.SEARCH_STATE_FAILED:
        # The controller's line is `service: REASON: text`.
        wrong_input = any(f": {reason}: " in search.error_message for reason in _WRONG_INPUT)
        code = ExitCode.USAGE if wrong_input else ExitCode.INFRASTRUCTURE
        raise CliError(in_flags(search.error_message), code, json_printed=json_output)
    return ExitCode.OK


def naming(name: str, message: str) -> str:
    """Return a message that names the file, once."""
    return message if message.startswith(name) else f"{name}: {message}"


def summary(search: pb.Search, best: pb.Node | None, kernel: Path | None, report: Path) -> str:
    """Return the one line that says what came out."""
    tail = f"report: {report}"
    if search.state == pb.SEARCH_STATE_FAILED and best is None:
        return f"no result after {search.steps} steps; {tail}"
    if best is None:
        return f"keep PyTorch, 1.00×: no kernel passed in {search.steps} steps; {tail}"
    timing = best.evaluation.timing
    if not timing.HasField("speedup") or timing.speedup < WORTHWHILE_SPEEDUP:
        return f"keep PyTorch, 1.00×: the best of {search.steps} steps PASSED with {timing_words(timing)}; kernel: {kernel}; {tail}"
    return f"PASSED, {timing_words(timing)}; kernel: {kernel}; {tail}"


def _write_kernel(search: pb.Search, best: pb.Node, folder: Path) -> Path:
    path = folder / "best_kernel.py"
    evaluation, description = best.evaluation, search.description
    shapes = "; ".join(f"{item.name} {_type_words(item.tensor)}" for item in description.inputs if item.HasField("tensor"))
    judged = "; ".join(f"{item.name} {list(item.tensor.shape)}" for item in description.judged_inputs if item.HasField("tensor"))
    state = ", ".join(entry.name for entry in description.state) or "none"
    loading = (
        ""
        if not description.state
        else "    kernel.load_state_dict(model.state_dict(), strict=False)  # then after_load(), if it has one\n"
    )
    header = (
        f"# {search.spec.task.name}: {timing_words(evaluation.timing)}\n"
        f"# Judged on {evaluation.platform.device_name} for {evaluation.platform.target}, Triton {evaluation.platform.triton_version}, "
        f"PyTorch {evaluation.platform.torch_version}, class {enum_name(task_pb2.PrecisionClass, evaluation.precision)}.\n"
        f"# How to use it:\n"
        f"#     from best_kernel import {description.entry_point}\n"
        f"#     kernel = {description.entry_point}(*get_init_inputs()).cuda()\n"
        + (f"# {loading}" if loading else "")
        + f"#     output = kernel(*inputs)\n"
        f"# State it loads by name: {state}\n"
        f"# Shapes compiled for: {shapes}\n"
        f"# Shapes where the numbers were proven: {judged or shapes}\n"
        f"# {search.name}, step {best.step}, digest {best.candidate.kernel.digest}\n\n"
    )
    path.write_text(header + best.candidate.kernel.source, encoding="utf-8")
    return path


def _type_words(tensor: task_pb2.TensorType) -> str:
    return f"{(enum_name(task_pb2.DType, tensor.dtype) or '?').lower()}{list(tensor.shape)}"


def search_json(search: pb.Search) -> Json:
    """Return a search without its sources."""
    return {
        "search": search.name,
        "task": search.spec.task.name,
        "state": enum_name(pb.SearchState, search.state),
        "stop_reason": enum_name(pb.StopReason, search.stop_reason),
        "error": search.error_message or None,
        "steps": search.steps,
        "max_steps": search.spec.budget.max_steps,
        "seed": search.spec.seed,
        "best_node": search.best_node or None,
        "best_speedup": optional(search, "best_speedup"),
        "usage": usage_json(search.usage),
        "max_cost_micro_usd": optional(search.spec.budget, "max_cost_micro_usd"),
        "models": [contribution_json(search, item) for item in search.contributions],
    }


def contribution_json(search: pb.Search, item: pb.Contribution) -> Json:
    """Return what one model of an ensemble has brought."""
    return {
        "model": model_name(search.spec.ensemble.members[item.ensemble_member].model),
        "steps": item.steps,
        "passed": item.passed,
        "gain": math.exp(item.log_gain),
        "cost_micro_usd": optional(item, "cost_micro_usd"),
    }


def node_json(node: pb.Node) -> Json:
    """Return a node without its source."""
    evaluation = evaluation_json(node.evaluation) if node.HasField("evaluation") else None
    return {
        "step": node.step,
        "parent": node.parent_step,
        "move": enum_name(kernel_pb2.Move, node.move),
        "kernel_digest": node.candidate.kernel.digest or None,
        "outcome": enum_name(generator_pb2.GenerateOutcome, node.candidate.outcome),
        "summary": node.candidate.summary or None,
        "message": (evaluation or {}).get("message") or node.candidate.message or None,
        "verdict": (evaluation or {}).get("verdict"),
        "cause": (evaluation or {}).get("cause"),
        "timing": timing_json(node.evaluation.timing) if evaluation else None,
        "reward": node.reward,
        "visits": node.visits,
        "shown_skills": list(node.shown_skills),
        "respected_skills": list(node.candidate.respected_skills),
        "provider": node.candidate.provider or None,
        "model": node.candidate.model or None,
    }


def _result_json(
    search: pb.Search, nodes: list[pb.Node], events: list[pb.SearchEvent], best: pb.Node | None, kernel: Path | None, report: Path
) -> Json:
    learnt = [event.skill_learnt for event in events if event.HasField("skill_learnt")]
    respected = [event.skill_respected for event in events if event.HasField("skill_respected")]
    return search_json(search) | {
        "verdict": "PASSED" if best else None,
        "timing": timing_json(best.evaluation.timing) if best else None,
        "device": enum_name(kernel_pb2.DeviceKind, search.platform.device),
        "target": search.platform.target or None,
        "keep_pytorch": best is None or (optional(best.evaluation.timing, "speedup") or 0.0) < WORTHWHILE_SPEEDUP,
        "kernel": str(kernel) if kernel else None,
        "report": str(report),
        "nodes": [node_json(node) for node in nodes],
        "rules_learnt": [message_json(item.skill) | {"step": item.step} for item in learnt],
        "rules_respected": [{"name": r.skill, "rule": r.rule, "step": r.step, "by_check": r.by_check} for r in respected],
    }
