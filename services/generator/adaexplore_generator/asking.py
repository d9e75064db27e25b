"""The prompt of each call: made from a request and what earlier replies said, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from adaexplore_generator.domain import DistillRequest, GenerateRequest, JudgeRequest, Prompt, SynthesizeRequest
from adaexplore_generator.edits import Misfit
from adaexplore_generator.extract import one_line
from adaexplore_generator.prompting import Budgets, PromptFile, cut, data_block, load_prompt
from adaexplore_generator.sections import (
    failed_edits_section,
    feedback_text,
    improvements_section,
    pool_section,
    repeated_section,
    request_sections,
    violations_section,
    window_section,
)


@dataclass(frozen=True)
class Prompts:
    """The prompt files in use."""

    proposer: PromptFile
    reviser: PromptFile
    tuner: PromptFile
    distiller: PromptFile
    judge: PromptFile
    synthesizer: PromptFile
    combined: PromptFile = field(default_factory=lambda: load_prompt("combined"))
    repairer: PromptFile = field(default_factory=lambda: load_prompt("repairer"))


@dataclass(frozen=True)
class Repetition:
    """What an answer repeated.

    Attributes:
        what: For people and for the model, for example `the newest version`.
        source: Its source if the prompt does not show it; else empty.

    """

    what: str
    source: str = ""


class PromptWriter:
    """Writes the prompts of all calls within budgets; what stays the same in a search comes first.

    Args:
        prompts: The prompt files.

    """

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    def proposing(self, request: GenerateRequest, budgets: Budgets, repeated: Repetition | None = None) -> Prompt:
        """Ask for a file written from nothing."""
        return self._prompts.proposer.fill(
            {
                **request_sections(request, budgets),
                "pool": pool_section(request.pool, budgets),
                "violations": violations_section(request.violations),
                "repeated": _repeated(repeated, budgets),
            }
        )

    def reviewing(self, request: GenerateRequest, budgets: Budgets) -> Prompt:
        """Ask what to change in the newest version."""
        return self._prompts.reviser.fill({**request_sections(request, budgets), "window": window_section(request.context, budgets)})

    def editing(self, request: GenerateRequest, budgets: Budgets, improvements: str = "", repeated: Repetition | None = None) -> Prompt:
        """Ask for edits of the newest version that carry out improvements."""
        return self._prompts.tuner.fill(
            {**self._edited(request, budgets, repeated), "improvements": improvements_section(improvements, budgets)}
        )

    def combined(self, request: GenerateRequest, budgets: Budgets, repeated: Repetition | None = None) -> Prompt:
        """Ask for improvements and edits in one reply."""
        return self._prompts.combined.fill(self._edited(request, budgets, repeated))

    def repairing(self, request: GenerateRequest, budgets: Budgets, misfits: Sequence[Misfit] = (), reply: str = "") -> Prompt:
        """Ask again for the edits that could not be applied, and show only them and the lines that they may have meant.

        The whole kernel is shown where a reply has code that is no edit, for then nothing says which lines it means.
        """
        unplaced = any(misfit.edit is None for misfit in misfits)
        return self._prompts.repairer.fill(
            {
                "kernel": data_block("The kernel:", cut(request.context[-1].source, 2 * budgets.kernel)) if unplaced else "",
                "failed_edits": failed_edits_section(misfits, reply, budgets),
            }
        )

    def distilling(self, request: DistillRequest, budgets: Budgets) -> Prompt:
        """Ask for a rule that one failure teaches."""
        said = feedback_text(request.kernel.feedback, replace(budgets, feedback=2 * budgets.feedback))
        return self._prompts.distiller.fill(
            {
                "kernel": data_block("The kernel:", cut(request.kernel.source, budgets.kernel)),
                "failure": data_block("What became of it:", said),
            }
        )

    def judging(self, request: JudgeRequest, budgets: Budgets) -> Prompt:
        """Ask whether a rule repeats a known one."""
        numbered = "\n".join(f"{number}: {one_line(rule, 600)}" for number, rule in enumerate(request.known_rules))
        known = data_block("Known rules:", cut(numbered, budgets.known_rules))
        return self._prompts.judge.fill({"known_rules": known, "rule": data_block("The new rule:", one_line(request.rule, 600))})

    def synthesizing(self, request: SynthesizeRequest, budgets: Budgets) -> Prompt:
        """Ask for a new task in the manner of others."""
        shown = (data_block(f"Program {n}:", cut(task.source, budgets.seed_task)) for n, task in enumerate(request.seed_tasks, 1))
        operators = f"Use these operators among others: {', '.join(request.operators)}" if request.operators else ""
        return self._prompts.synthesizer.fill({"seed_tasks": "\n\n".join(shown), "operators": operators})

    def _edited(self, request: GenerateRequest, budgets: Budgets, repeated: Repetition | None) -> dict[str, str]:
        return {
            **request_sections(request, budgets),
            "window": window_section(request.context, budgets),
            "violations": violations_section(request.violations),
            "repeated": _repeated(repeated, budgets),
        }


def _repeated(repeated: Repetition | None, budgets: Budgets) -> str:
    return repeated_section(repeated.what, repeated.source, budgets) if repeated else ""
