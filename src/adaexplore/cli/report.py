"""The Markdown report of a search, with its tree and its speedup curve as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from adaexplore.cli.costs import usd
from adaexplore.cli.follow import node_words
from adaexplore.cli.models import model_name
from adaexplore.cli.output import enum_name, timing_words
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, task_pb2


def write_report(search: pb.Search, nodes: list[pb.Node], events: list[pb.SearchEvent], best: pb.Node | None, folder: Path) -> Path:
    """Write `report.md` and, where matplotlib is installed, `search.svg` beside it; return the report's path."""
    made = [node for node in nodes if node.step]
    picture = _draw(made, best, folder / "search.svg") if made else "There is no step to draw."
    sections = [
        f"# {search.spec.task.name}\n",
        _result(search, best),
        f"## Search\n\n{picture}\n\n```text\n{_tree(made, best)}\n```\n",
        _models(search),
        _rules(events),
        _checks(best) if best else "",
        _setup(search),
    ]
    path = folder / "report.md"
    path.write_text("\n".join(section for section in sections if section), encoding="utf-8")
    return path


def _result(search: pb.Search, best: pb.Node | None) -> str:
    lines = [f"State: {enum_name(pb.SearchState, search.state)} ({enum_name(pb.StopReason, search.stop_reason)}), {search.steps} steps."]
    if search.error_message:
        lines.append(f"\n{search.error_message}")
    if best is None:
        return "\n".join([*lines, "\nNo kernel passed: keep PyTorch, 1.00×.\n"])
    timing = best.evaluation.timing
    median = f"{timing.median_us:.1f}" if timing.HasField("median_us") else "–"
    rows = [f"| best kernel (step {best.step}) | {median} | {timing_words(timing)} |"]
    for baseline in timing.baselines:
        kind = (enum_name(evaluation_pb2.BaselineKind, baseline.kind) or "").lower()
        rows.append(f"| PyTorch {kind} | {baseline.median_us:.1f} | {baseline.launches} launches |")
    if timing.explanation:
        lines.append(f"\n{timing.explanation}")
    return "\n".join([*lines, "", "| what | latency, µs | |", "|---|---|---|", *rows, "", f"How it works: {best.candidate.summary}", ""])


def _models(search: pb.Search) -> str:
    if not search.contributions:
        return ""
    rows = []
    for item in search.contributions:
        name = model_name(search.spec.ensemble.members[item.ensemble_member].model)
        cost = usd(item.cost_micro_usd if item.HasField("cost_micro_usd") else None)
        rows.append(f"| {name} | {item.steps} | {item.passed} | {math.exp(item.log_gain):.2f}× | {cost} |")
    head = "| model | steps | passed | made the best faster by | cost |\n|---|---|---|---|---|"
    return "\n".join(["## Models\n", head, *rows, ""])


def _tree(nodes: list[pb.Node], best: pb.Node | None) -> str:
    children: dict[int, list[pb.Node]] = {}
    for node in nodes:
        children.setdefault(node.parent_step, []).append(node)
    lines = ["root"]
    stack = [(node, 1) for node in reversed(children.get(0, []))]
    while stack:
        node, depth = stack.pop()
        lines.append(f"{'  ' * depth}{node.step} {node_words(node)}{'  ← best' if best and node.step == best.step else ''}")
        stack += [(child, depth + 1) for child in reversed(children.get(node.step, []))]
    return "\n".join(lines)


def _rules(events: list[pb.SearchEvent]) -> str:
    learnt = [event.skill_learnt for event in events if event.HasField("skill_learnt")]
    respected = [event.skill_respected for event in events if event.HasField("skill_respected")]
    if not learnt and not respected:
        return "## Rules\n\nNo failure taught a rule in this search.\n"
    lines = [f"* learnt at step {item.step}: {item.skill.rule} {item.skill.instead} (`{item.skill.name}`)" for item in learnt]
    for item in respected:
        how = "a source was sent back" if item.by_check else "the generator chose otherwise"
        lines.append(f"* respected at step {item.step}, {how}: {item.rule} (`{item.skill}`)")
    return "\n".join(["## Rules", "", *lines, ""])


def _launch_row(launch: evaluation_pb2.LaunchReport) -> str:
    latency = f"{launch.latency_us:.1f}" if launch.HasField("latency_us") else "–"
    registers = launch.registers if launch.HasField("registers") else "–"
    shared = launch.shared_bytes if launch.HasField("shared_bytes") else "–"
    return f"| {launch.name} | {launch.count} | {latency} | {launch.bound_by} | {registers} | {shared} |"


def _checks(best: pb.Node) -> str:
    rows = [f"| {c.family} | {'agrees' if c.passed else 'differs'} | {c.error:.2e} | {c.budget:.2e} |" for c in best.evaluation.checks]
    launches = [_launch_row(item) for item in best.evaluation.launches]
    head = ["## Proof", "", "| inputs | outputs | error | budget |", "|---|---|---|---|", *rows, ""]
    table = ["| launch | count | µs | bound by | registers | shared bytes |", "|---|---|---|---|---|---|", *launches, ""]
    return "\n".join([*head, *(table if launches else [])])


def _setup(search: pb.Search) -> str:
    platform = search.platform
    inputs = "; ".join(f"{i.name} {list(i.tensor.shape)}" for i in search.description.inputs if i.HasField("tensor"))
    judged = "; ".join(f"{i.name} {list(i.tensor.shape)}" for i in search.description.judged_inputs if i.HasField("tensor"))
    precision, track = enum_name(task_pb2.PrecisionClass, search.spec.task.precision), enum_name(task_pb2.Track, search.spec.task.track)
    rows = {
        "device": f"{platform.device_name}, {platform.target}",
        "software": f"PyTorch {platform.torch_version}, Triton {platform.triton_version}, harness {platform.harness_version}",
        "sandbox": platform.sandbox_level,
        "class and track": f"{precision}, {track}",
        "full shape": inputs,
        "judged shape": judged or inputs,
        "generator": f"{search.spec.model.provider} {search.spec.model.model}".strip(),
        "seed": str(search.spec.seed),
        "search": search.name,
        "task digest": search.description.digest,
    }
    return "\n".join(["## Setup", "", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items()), ""])


def _draw(nodes: list[pb.Node], best: pb.Node | None, path: Path) -> str:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; the report stands without it
    except ImportError:
        return "The picture needs matplotlib: `pip install 'adaexplore[report]'`."
    figure = Figure(figsize=(10, 7), layout="constrained")
    curve, tree = figure.subplots(2, 1, height_ratios=[2, 3])
    _draw_curve(curve, nodes)
    _draw_tree(tree, nodes, best)
    figure.savefig(path, metadata={"Date": None})
    return f"![Speedup by step and the tree of candidates]({path.name})"


def _draw_curve(axes: Any, nodes: list[pb.Node]) -> None:
    passed = [(node.step, node.evaluation.timing.speedup) for node in nodes if node.evaluation.timing.HasField("speedup")]
    failed = [node.step for node in nodes if not node.evaluation.timing.HasField("speedup")]
    best, curve = 1.0, []
    found = dict(passed)
    for node in nodes:
        best = max(best, found.get(node.step, 0.0))
        curve.append(best)
    axes.step([node.step for node in nodes], curve, where="post", color="tab:green", label="best so far (PyTorch is 1)")
    axes.scatter([step for step, _ in passed], [speedup for _, speedup in passed], color="tab:blue", s=18, label="passed")
    axes.scatter(failed, [0.0] * len(failed), color="tab:red", marker="x", s=22, label="did not pass")
    axes.set(xlabel="step", ylabel="speedup over the best baseline", xlim=(0.5, max(node.step for node in nodes) + 0.5))
    axes.legend(loc="lower right", fontsize=8)


def _draw_tree(axes: Any, nodes: list[pb.Node], best: pb.Node | None) -> None:
    x, y = _layout(nodes)
    for node in nodes:
        axes.plot([x[node.parent_step], x[node.step]], [y[node.parent_step], y[node.step]], color="lightgrey", zorder=1)
    for node in nodes:
        passed = node.evaluation.verdict == evaluation_pb2.VERDICT_PASSED
        colour = "tab:green" if best and node.step == best.step else "tab:blue" if passed else "tab:red"
        axes.scatter(x[node.step], y[node.step], s=130, color=colour, zorder=2)
        axes.annotate(str(node.step), (x[node.step], y[node.step]), ha="center", va="center", color="white", fontsize=7, zorder=3)
    axes.scatter(x[0], y[0], s=60, color="black", zorder=2)
    axes.axis("off")


def _layout(nodes: list[pb.Node]) -> tuple[dict[int, float], dict[int, float]]:
    children: dict[int, list[int]] = {}
    y: dict[int, float] = {0: 0.0}
    for node in nodes:
        children.setdefault(node.parent_step, []).append(node.step)
        y[node.step] = -float(node.depth)
    x: dict[int, float] = {}
    leaves = 0
    # Children always have larger step numbers than their parent, so a pre-order walk for the leaves and a reverse pass suffice.
    stack = [0]
    while stack:
        step = stack.pop()
        if step not in children:
            x[step] = float(leaves)
            leaves += 1
        stack += reversed(children.get(step, []))
    for step in sorted(children, reverse=True):
        x[step] = sum(x[child] for child in children[step]) / len(children[step])
    return x, y
