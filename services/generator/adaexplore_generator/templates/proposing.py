"""Draws proposals: a structure that was not tried, or a small change of the parent."""

from __future__ import annotations

import random

from adaexplore.runtime.sources import kernel_digest
from adaexplore_generator.domain import ContextKernel, Move, Outcome
from adaexplore_generator.templates.candidate import Plan, make_plan, write_candidate
from adaexplore_generator.templates.ir import UnsupportedError
from adaexplore_generator.templates.local import changes_between, foreign_neighbours, neighbours
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.recipe import Recipe, recipe_of
from adaexplore_generator.templates.request import TemplateProposal, TemplateRequest
from adaexplore_generator.templates.rules import broken_by
from adaexplore_generator.templates.structural import Draw, SpellingForbiddenError, structures


def propose(request: TemplateRequest) -> TemplateProposal:
    """Draws one proposal; a pure function of the request.

    EXHAUSTED says, in `message`, that nothing is left for the move, or that the task holds nothing these templates can write.
    """
    try:
        plan = make_plan(request, lower(request.description))
        if not plan.groups(()):
            return _exhausted("no operator of this task has a template, so PyTorch's own kernels stay")
        if request.move is Move.STRUCTURAL:
            return _structural(request, plan)
        return _local(request, plan)
    except UnsupportedError as error:
        return _exhausted(f"templates cannot write this task: {error}")
    except SpellingForbiddenError as error:
        return _exhausted(str(error))


def _exhausted(message: str) -> TemplateProposal:
    return TemplateProposal(Outcome.EXHAUSTED, message=message)


def _rng(request: TemplateRequest) -> random.Random:
    return random.Random(f"{request.seed}/{request.move.value}/{len(request.violations)}")  # noqa: S311


def _structural(request: TemplateRequest, plan: Plan) -> TemplateProposal:
    tried = {found.structure for parent in request.parents if (found := recipe_of(parent.recipe, parent.source)) is not None}
    refusals: list[str] = []
    for draw in structures(plan, request.skills, _rng(request)):
        if draw.recipe.structure in tried:
            continue
        proposal = _written(request, plan, draw)
        if isinstance(proposal, TemplateProposal):
            return proposal
        refusals.append(proposal)
    # A structure that was refused says something only if no other could be written either.
    refused = bool(refusals) and all(refusals)
    return _exhausted(refusals[0] if refused else "every structure of this task was proposed already")


def _local(request: TemplateRequest, plan: Plan) -> TemplateProposal:
    """A small change of the last parent; without a recipe that fits, of its literals."""
    if not request.parents:
        return _exhausted("a local move needs a parent")
    parent = request.parents[-1]
    recipe = recipe_of(parent.recipe, parent.source)
    if recipe is None or not _fits(plan, recipe):
        return _foreign(request, parent)
    for draw in neighbours(plan, parent, recipe, request.skills, _rng(request)):
        proposal = _written(request, plan, draw, parent=recipe)
        if isinstance(proposal, TemplateProposal):
            return proposal
    return _exhausted("every small change of this kernel was proposed already")


def _fits(plan: Plan, recipe: Recipe) -> bool:
    """Whether a recipe is for these kernels; one of another task or of changed templates is not."""
    try:
        groups = plan.groups(recipe.breaks, recipe.library)
        write_candidate(plan, recipe)
    except (UnsupportedError, KeyError, ValueError):
        return False
    return len(groups) == len(recipe.groups)


def _foreign(request: TemplateRequest, parent: ContextKernel) -> TemplateProposal:
    for source in foreign_neighbours(parent.source, _rng(request)):
        if kernel_digest(source) not in request.known_digests and not broken_by(request.skills, source):
            return TemplateProposal(Outcome.KERNEL, source, "", "One launch parameter of the given kernel changed.")
    return _exhausted("the given kernel holds no launch parameter that was not tried")


def _written(request: TemplateRequest, plan: Plan, draw: Draw, parent: Recipe | None = None) -> TemplateProposal | str:
    """The proposal of a draw; else why it cannot be written for this task, or nothing if it is known already or breaks a rule."""
    try:
        source = write_candidate(plan, draw.recipe)
    except UnsupportedError as error:
        return f"templates cannot write this task: {error}"
    if kernel_digest(source) in request.known_digests or broken_by(request.skills, source):
        return ""
    return TemplateProposal(Outcome.KERNEL, source, draw.recipe.to_json(), _summary(plan, draw.recipe, parent), draw.respected)


def _summary(plan: Plan, recipe: Recipe, parent: Recipe | None) -> str:
    """What was chosen, or what was changed."""
    if parent is not None:
        return "Changed " + ", ".join(changes_between(parent, recipe)) + "."
    groups = plan.groups(recipe.breaks, recipe.library)
    kernels = ", ".join(f"{group.kind} ({choice.algorithm})" for group, choice in zip(groups, recipe.groups, strict=True))
    spelled = "".join(f"; {name} as {ident}" for name, ident in recipe.spelling)
    left = f"; {len(recipe.library)} product{'s' if len(recipe.library) != 1 else ''} left to the library" if recipe.library else ""
    return f"{len(groups)} fused kernel group{'s' if len(groups) != 1 else ''}: {kernels}{left}{spelled}."
