"""`adaexplore rules`: what the memory has learnt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from adaexplore.cli.connection import connecting
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, addresses
from adaexplore.cli.output import enum_name, message_json, print_json
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.memory.v1 import memory_pb2
from adaexplore.types.v1 import skill_pb2

app = typer.Typer(help="What the memory has learnt.", no_args_is_help=True)


@app.command("list")
@connecting
def list_rules(
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """List the rules, the newest first."""
    skills = asyncio.run(_list(state_dir))
    if json_output:
        print_json({"rules": [message_json(skill) for skill in skills]})
        return
    table = Table("rule", "state", "tasks", "shown", "broken", "avoided", "name")
    for skill in skills:
        counters, state = skill.counters, enum_name(skill_pb2.SkillState, skill.state) or ""
        counts = (len(skill.evidence.task_digests), counters.shown, counters.broken, counters.avoided)
        table.add_row(skill.rule, state, *(str(count) for count in counts), skill.name)
    Console().print(table)


@app.command("show")
@connecting
def show_rule(
    name: str = typer.Argument(help="Resource name, skills/…"),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show one rule with its evidence."""
    skill = asyncio.run(_get(state_dir, name if name.startswith("skills/") else f"skills/{name}"))
    if json_output:
        print_json(message_json(skill))
        return
    console, evidence = Console(highlight=False, markup=False, soft_wrap=True), skill.evidence
    console.print(f"{skill.rule}\n{skill.instead}\n")
    console.print(f"{skill.name}  {enum_name(skill_pb2.SkillState, skill.state)}  Triton {skill.scope.triton_versions or 'any'}")
    console.print(f"{evidence.failure_count} failures in {len(evidence.task_digests)} tasks; signature: {evidence.signature}")
    if evidence.HasField("proof"):
        proof = evidence.proof
        repaired = "and a repair compiles" if proof.HasField("repair_index") else "no repair was shown"
        failed = "the reproducer fails" if proof.reproducer_failed else "the reproducer does NOT fail"
        console.print(f"proof on Triton {proof.triton_version}, {proof.target}: {failed}, {repaired}")
    if evidence.HasField("reproducer"):
        console.print(f"\n# reproducer\n{evidence.reproducer.source}")
    if evidence.proof.HasField("repair_index"):
        console.print(f"\n# repair\n{evidence.repairs[evidence.proof.repair_index].source}")


async def _list(state_dir: Path) -> list[skill_pb2.Skill]:
    skills: list[skill_pb2.Skill] = []
    async with addresses(["memory"], state_dir) as at, at.client(AsyncMemoryClient) as client:
        token = ""
        while True:
            page = await client.list_skills(memory_pb2.ListSkillsRequest(page_size=1000, page_token=token), timeout_s=30)
            skills += page.skills
            token = page.next_page_token
            if not token:
                return skills


async def _get(state_dir: Path, name: str) -> skill_pb2.Skill:
    async with addresses(["memory"], state_dir) as at, at.client(AsyncMemoryClient) as client:
        return (await client.get_skill(memory_pb2.GetSkillRequest(name=name), timeout_s=30)).skill
