"""Writes a whole candidate from a program and a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adaexplore_generator.graph import TaskFormat
from adaexplore_generator.templates.emission import Context, Written
from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.functions import SPELLINGS, Spelling, write_helper
from adaexplore_generator.templates.host_text import HostWriter
from adaexplore_generator.templates.ir import HostCall, Program, UnsupportedError
from adaexplore_generator.templates.library import Chosen, choices, refuse_forbidden
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.partition import Part, partition
from adaexplore_generator.templates.pointwise_writer import write_pointwise
from adaexplore_generator.templates.product_writer import write_product
from adaexplore_generator.templates.recipe import Recipe
from adaexplore_generator.templates.request import TemplateRequest
from adaexplore_generator.templates.row_writer import write_rows
from adaexplore_generator.templates.space import knob_values
from adaexplore_generator.templates.split_writer import write_split
from adaexplore_generator.templates.task_source import TaskShell, function_shell, module_shell


@dataclass(frozen=True)
class Plan:
    """A task ready to be written: what surrounds the kernels, and its program for every choice of products that stay with the library."""

    programs: Mapping[Chosen, Program]
    shell: TaskShell
    task_name: str
    precision: str

    def program(self, library: Chosen = ()) -> Program:
        """The program that leaves these products to the library; UnsupportedError if they may not or need not be left to it."""
        if library not in self.programs:
            raise UnsupportedError(f"the products {list(library)} are not the library's to compute")
        return self.programs[library]

    def parts(self, breaks: tuple[int, ...], library: Chosen = ()) -> tuple[Part, ...]:
        """Kernels and host calls under these breaks."""
        return partition(self.program(library), frozenset(breaks))

    def groups(self, breaks: tuple[int, ...], library: Chosen = ()) -> tuple[Group, ...]:
        """Kernel groups under these breaks."""
        return tuple(part for part in self.parts(breaks, library) if isinstance(part, Group))


def make_plan(request: TemplateRequest, program: Program) -> Plan:
    """Puts a lowered program, which leaves no product to the library, together with the task's source and the programs that do.

    UnsupportedError if the task's track forbids something that every candidate would leave to torch.
    """
    description = request.description
    refuse_forbidden(program, request.track)
    if description.format is TaskFormat.FUNCTION:
        shell = function_shell(request.task_source, description.entry_point)
    else:
        shell = module_shell(request.task_source)
    others = {chosen: lower(description, frozenset(chosen)) for chosen in choices(program, request.track)}
    programs = {chosen: other for chosen, other in others.items() if any(isinstance(part, Group) for part in partition(other))}
    return Plan({(): program} | programs, shell, request.task_name, request.precision)


def write_candidate(plan: Plan, recipe: Recipe) -> str:
    """Source of the candidate that a recipe describes; UnsupportedError if the recipe does not fit the task."""
    parts = plan.parts(recipe.breaks, recipe.library)
    groups = [part for part in parts if isinstance(part, Group)]
    if len(groups) != len(recipe.groups):
        raise UnsupportedError("the recipe is for other kernels")
    spelling = _spelling(recipe)
    program = plan.program(recipe.library)
    host = HostWriter(program, plan.shell.arguments)
    written: list[Written] = []
    for part in parts:
        if isinstance(part, HostCall):
            host.call(part)
            continue
        choice, number = recipe.groups[len(written)], len(written)
        knobs = knob_values(part, choice.algorithm, choice.knobs)
        written.append(_write_group(Context(part, number, program.values, spelling, knobs, plan.precision), choice.algorithm))
        host.launch(written[-1])
    host.finish()
    return _file(plan, recipe, written, host.lines, spelling)


def _spelling(recipe: Recipe) -> Mapping[str, Spelling]:
    chosen = {name: options[0] for name, options in SPELLINGS.items()}
    for name, ident in recipe.spelling:
        found = next((option for option in SPELLINGS.get(name, ()) if option.ident == ident), None)
        if found is None:
            raise UnsupportedError(f"the recipe spells {name} as {ident}")
        chosen[name] = found
    return chosen


def _write_group(context: Context, algorithm: str) -> Written:
    if context.group.kind == "pointwise":
        return write_pointwise(context, algorithm)
    if context.group.kind == "product":
        return write_product(context, algorithm)
    return write_split(context) if algorithm == "split" else write_rows(context, algorithm)


def _file(plan: Plan, recipe: Recipe, written: list[Written], forward: list[str], spelling: Mapping[str, Spelling]) -> str:
    helpers = sorted(frozenset().union(*(each.helpers for each in written)))
    helper_sources = [write_helper(name, spelling) for name in helpers]
    kernels = [*helper_sources, *(each.source for each in written)]
    libdevice = any("libdevice." in text for text in kernels)
    sections = [
        _header(plan, recipe),
        "\n".join(_imports(plan, libdevice=libdevice)),
        *plan.shell.kept,
        *kernels,
        _entry(plan, forward),
        f"# adaexplore-recipe: {recipe.to_json()}",
    ]
    return "\n\n\n".join(section for section in sections if section) + "\n"


def _header(plan: Plan, recipe: Recipe) -> str:
    if not plan.shell.class_head:
        use = "call it in place of the reference, with the same arguments on a GPU."
    else:
        use = "build ModelNew with the arguments of Model, load the state of Model (the names are the same), move it to a GPU, call it."
    kept = "; matrix products that the library is faster at stay in PyTorch" if recipe.library else ""
    title = f"{plan.task_name}: Triton kernels in place of the PyTorch operators{kept}."
    return f'"""{title}\n\nHow to use: {use}\nAny shape of the same rank may be passed.\n"""'


def _imports(plan: Plan, *, libdevice: bool) -> list[str]:
    own = ["import torch", "import triton", "import triton.language as tl"]
    if libdevice:
        own.append("from triton.language.extra import libdevice")
    future = [line for line in plan.shell.imports if "__future__" in line]
    task = [line for line in plan.shell.imports if line not in own and line not in future]
    return [*future, *own[:1], *task, *own[1:]]


def _entry(plan: Plan, forward: list[str]) -> str:
    shell = plan.shell
    body = "\n".join(f"    {line}" for line in forward)
    if not shell.class_head:
        return f'{shell.signature}\n    """What the reference computes."""\n{body}'
    methods = [_indented(method) for method in shell.methods]
    entry = f'    {shell.signature}\n        """What Model.forward computes."""\n' + _indented(body)
    doc = f'    """Model of {plan.task_name} with its forward in Triton kernels."""'
    return "\n\n".join([f"{shell.class_head}\n{doc}", *methods, entry])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
