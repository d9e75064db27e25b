"""The sections of prompts: what the model is told about task, device, skills and earlier kernels, each cut to its budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adaexplore_generator.domain import Baseline, ContextKernel, Device, Feedback, GenerateRequest, Launch, Skill, Task, Violation
from adaexplore_generator.edits import Edit, Misfit
from adaexplore_generator.extract import one_line
from adaexplore_generator.graph import TaskDescription, TaskFormat, TaskInput, TensorType
from adaexplore_generator.prompting import Budgets, cut, data_block, estimate_tokens

_PRECISION = {
    "fp32": "float32 in and out; products and sums in full float32: `tl.dot` needs input_precision='ieee'",
    "tf32": "float32 in and out; matrix products may round their operands to TF32, sums stay float32",
    "bf16": "bfloat16 in and out; accumulate in float32",
    "fp16": "float16 in and out; accumulate in float32",
    "fp8": "8-bit floating point operands; accumulate in float32",
    "int8": "8-bit integer operands; accumulate in int32",
}
_TRACK = {
    "any": "any library may compute, though only what beats PyTorch counts",
    "no_vendor_library": "no kernel of cuBLAS, cuDNN or another vendor library may run",
    "triton_only": "only your Triton kernels may compute; torch may allocate and view",
}
_REASON_CHARS = 160
_JUDGED = {
    "cpu": "no GPU here: kernels are interpreted to check them and compiled for the target; "
    "their latency is estimated from traffic, arithmetic and occupancy",
    "cuda": "a real GPU; latency is measured",
}


def setting(task: Task, device: Device, description: TaskDescription) -> str:
    """Return what holds for every kernel of a search: device, target, precision class, track and entry point."""
    lines = [
        f"Compile target: {device.target or 'the device’s own'}",
        f"Judged on: {_JUDGED.get(device.kind, 'the evaluator’s first device')}",
        f"Precision class {task.precision}: {_PRECISION.get(task.precision, _PRECISION['fp32'])}",
        f"Track {task.track}: {_TRACK.get(task.track, _TRACK['any'])}",
        f"Entry point: {_entry_point(description)}",
    ]
    return "\n".join(lines)


def entry_points(description: TaskDescription) -> tuple[str, ...]:
    """Return the names of which a candidate defines one."""
    name = description.entry_point or "ModelNew"
    return (name,) if description.format is TaskFormat.MODULE else (name, "kernel_function")


def task_section(task: Task, description: TaskDescription, budgets: Budgets) -> str:
    """Return what the task is: its arguments at full shape, then its source as data."""
    facts = [
        *_arguments("Constructor arguments", description.init_inputs),
        *_arguments("Arguments at full shape", description.inputs),
        *(f"Output: {tensor(item)}" for item in description.outputs),
        *(f"State `{item.name}`: {tensor(item.type)}" for item in description.state),
    ]
    if description.minimum_bytes:
        facts.append(f"Bytes that must be moved: {description.minimum_bytes:,}; floating point operations: {description.flops:,.0f}")
    shown = cut("\n".join(facts), budgets.task_facts)
    return "\n".join(filter(None, [shown, data_block("The PyTorch program:", cut(task.source, budgets.task_source))]))


def skills_section(skills: Sequence[Skill], budgets: Budgets) -> str:
    """Return rules to respect and techniques to use as two lists, as many of the skills from the start as the budget allows."""
    rules, techniques, used = list[str](), list[str](), 0
    for skill in skills:
        line = f"- {skill.rule}" + (f" Instead: {skill.instead}" if skill.instead else "")
        used += estimate_tokens(line)
        if used > budgets.skills:
            break
        (techniques if skill.kind == "TECHNIQUE" else rules).append(line)
    lists = [("Learnt from earlier kernels; respect it:", rules), ("What made earlier kernels faster; use it where it fits:", techniques)]
    return "\n\n".join("\n".join([title, *lines]) for title, lines in lists if lines)


def baselines_section(baselines: Sequence[Baseline]) -> str:
    """Return the latencies to beat."""
    if not baselines:
        return ""
    rows = (
        f"- PyTorch {item.kind}: {item.median_us:.2f} µs" + (f" in {item.launches} launches" if item.launches else "") for item in baselines
    )
    return "\n".join(["Latency to beat:", *rows])


def pool_section(pool: Sequence[ContextKernel], budgets: Budgets) -> str:
    """Return the representatives of what was found so far, each with what the evaluator said."""
    if not pool:
        return ""
    shown = (_kernel(f"Kernel {number}", item, budgets, budgets.kernel) for number, item in enumerate(pool, 1))
    return "\n\n".join(["Kernels found so far, each the best of its kind:", *shown])


def window_section(window: Sequence[ContextKernel], budgets: Budgets) -> str:
    """Return the versions from the oldest to the newest; the newest, which is to be edited, has twice the budget.

    No title says which is the newest, so that what is shown of a version stays the same when others follow it.
    """
    last = len(window)
    shown = [
        _kernel(f"Version {number}", item, budgets, budgets.kernel if number < last else 2 * budgets.kernel)
        for number, item in enumerate(window, 1)
    ]
    return "\n\n".join([*shown, f"The newest version is version {last}."])


def improvements_section(text: str, budgets: Budgets) -> str:
    """Return what the reviser named, as data; empty if nothing."""
    return (
        data_block("Improvements that a reviewer names:", cut(text.strip(), budgets.improvements, tail_share=0.0)) if text.strip() else ""
    )


def violations_section(violations: Sequence[Violation]) -> str:
    """Return the rules that the last attempts broke."""
    if not violations:
        return ""
    rows = (f"- {item.rule}" + (f" (line {item.line})" if item.line else "") for item in violations)
    return "\n".join(["An earlier attempt at this was refused because it broke these rules; do not break them again:", *rows])


def failed_edits_section(misfits: Sequence[Misfit], reply: str, budgets: Budgets) -> str:
    """Return what was not applied and why, with the lines of the kernel that each edit may have meant.

    Args:
        misfits: Edits, and what is wrong with text that is none.
        reply: Text of the reply; shown if it holds such text.
        budgets: Budgets; each edit, its lines and such text have equal shares.

    """
    placed = [misfit for misfit in misfits if misfit.edit is not None]
    reasons = [f"- {one_line(misfit.reason, _REASON_CHARS)}" for misfit in misfits if misfit.edit is None]
    share = budgets.failed_edits // max(1, 2 * len(placed) + bool(reasons))
    parts = [_failed_edit(misfit, share) for misfit in placed]
    if reasons:
        parts.insert(0, data_block("\n".join(["Your last answer could not be used:", *reasons[:2], "It was:"]), cut(reply, share)))
    return "\n\n".join(parts)


def repeated_section(what: str, source: str, budgets: Budgets) -> str:
    """Return what an answer repeated, and its source if that is given."""
    said = (
        f"You were asked this before, and your answer was not used: it makes {what}, comments and layout apart. "
        "Make a change that alters what is computed or how."
    )
    return "\n".join(filter(None, [said, data_block("It was:", cut(source, budgets.repeated)) if source else ""]))


def feedback_text(feedback: Feedback | None, budgets: Budgets) -> str:
    """Return what the evaluator said about a kernel, its logs cut on line bounds."""
    if feedback is None:
        return "Not judged yet."
    if feedback.passed:
        # A profile holds all of the rest, within a length of its own.
        said = [_latency(feedback), *([feedback.profile] if feedback.profile else [*_position(feedback), *_launches(feedback.launches)])]
        return cut("\n".join(said), budgets.feedback, tail_share=0.0)
    where = f" at line {feedback.line}" if feedback.line else ""
    head = f"{feedback.verdict} ({feedback.cause or 'no cause'}) in phase {feedback.phase.lower() or 'unknown'}{where}: {feedback.message}"
    parts = [head, feedback.excerpt, feedback.exception_type, feedback.detail]
    return cut("\n".join(filter(None, parts)), budgets.feedback, tail_share=0.6)


def tensor(kind: TensorType) -> str:
    """Return a tensor's type for people: dtype and extents."""
    return f"{kind.dtype}[{', '.join(map(str, kind.shape))}]"


def request_sections(request: GenerateRequest, budgets: Budgets) -> dict[str, str]:
    """Return the sections that every prompt of a generation begins with."""
    return {
        "setting": setting(request.task, request.device, request.description),
        "task": task_section(request.task, request.description, budgets),
        "baselines": baselines_section(request.baselines),
        "skills": skills_section(request.skills, budgets),
    }


def _failed_edit(misfit: Misfit, tokens: int) -> str:
    edit = misfit.edit or Edit((), ())
    lines = "\n".join(["<<<<<<< SEARCH", *edit.search, "=======", *edit.replace, ">>>>>>> REPLACE"])
    parts = [data_block(f"Edit {misfit.number} was not applied: {one_line(misfit.reason, _REASON_CHARS)}\nIt was:", cut(lines, tokens))]
    share = tokens // max(1, len(misfit.nearest))
    parts.extend(data_block("Lines of the kernel that it may have meant:", cut(near, share)) for near in misfit.nearest)
    return "\n".join(parts)


def _kernel(title: str, item: ContextKernel, budgets: Budgets, tokens: int) -> str:
    source = data_block(f"{title}:", cut(item.source, tokens))
    return "\n".join([source, data_block("The judge said:", feedback_text(item.feedback, budgets))])


def _entry_point(description: TaskDescription) -> str:
    if description.format is TaskFormat.FUNCTION:
        return f"a function `{description.entry_point}` (or `kernel_function`) with the reference's signature"
    return (
        f"`class {description.entry_point or 'ModelNew'}(torch.nn.Module)` with the constructor and `forward` signature of `Model`. "
        "Parameters and buffers keep the names they have in `Model`; other values are loaded into them after construction, so derived "
        "tensors (transposed or fused weights) are built in `after_load(self)`, which is then called, or in `forward`"
    )


def _arguments(title: str, inputs: Iterable[TaskInput]) -> list[str]:
    shown = [f"{item.name}: {tensor(item.tensor) if item.tensor else item.literal}" for item in inputs]
    return [f"{title}: {'; '.join(shown)}"] if shown else []


def _latency(feedback: Feedback) -> str:
    if feedback.median_us is None:
        return f"PASSED; latency unknown. {feedback.explanation}".strip()
    speedup = f", {feedback.speedup:.3f}× the best baseline" if feedback.speedup is not None else ""
    return f"PASSED; {feedback.timing.lower() or 'known'} latency {feedback.median_us:.2f} µs{speedup}. {feedback.explanation}".strip()


def _position(feedback: Feedback) -> list[str]:
    """Return where a kernel stands under the roofline and what limits it, each where it is known."""
    lines = []
    if feedback.roofline_share is not None:
        lines.append(f"Roofline: {feedback.roofline_share:.0%} of what the device allows for this task's bytes and operations.")
    shares: dict[str, float] = {}
    for item in feedback.launches:
        if item.bound_by and item.weight is not None:
            shares[item.bound_by] = shares.get(item.bound_by, 0.0) + item.weight
    if total := sum(shares.values()):
        ranked = sorted(shares.items(), key=lambda item: -item[1])
        lines.append("Limited by: " + ", ".join(f"{name} in {share / total:.0%} of the time" for name, share in ranked) + ".")
    if moved := sum(item.count * item.dram_bytes for item in feedback.launches):
        lines.append(f"Bytes moved to and from device memory in one call: {moved:,.0f}")
    return lines


def _launches(launches: Sequence[Launch]) -> list[str]:
    slowest = sorted(launches, key=lambda item: item.weight or 0.0, reverse=True)
    return [_launch(item) for item in slowest]


def _launch(item: Launch) -> str:
    facts = {
        "share of time": None if item.time_share is None else f"{item.time_share:.0%}",
        "µs": None if item.latency_us is None else f"{item.latency_us:.2f}",
        "registers": item.registers,
        "spilled bytes": item.spill_bytes,
        "shared bytes": item.shared_bytes,
        "occupancy": None if item.occupancy is None else f"{item.occupancy:.0%}",
        "bound by": item.bound_by or None,
    }
    shown = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return f"- launch {item.name} ×{item.count}" + (f": {shown}" if shown else "")
