"""`adaexplore rules`: what the memory has learnt."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console
from rich.table import Table

from adaexplore.cli.connection import connecting
from adaexplore.cli.exchange import RuleFormat, batches, from_lines, to_line
from adaexplore.cli.failures import CliError
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, addresses
from adaexplore.cli.output import enum_name, message_json, print_json
from adaexplore.cli.verifying import Row, markdown, remembered, verify
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.memory.v1 import memory_pb2
from adaexplore.types.v1 import evaluation_pb2, skill_pb2

_Answer = TypeVar("_Answer")

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
    request = memory_pb2.GetSkillRequest(name=_full(name))
    skill = asyncio.run(_call(state_dir, lambda client: client.get_skill(request, timeout_s=30))).skill
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


@app.command("add")
@connecting
def add_rule(
    rule: str = typer.Argument(help='One sentence that begins with "You cannot".'),
    instead: str = typer.Option("", help="What to do instead."),
    triton: str = typer.Option("", help="Versions of Triton it holds for, for example ==3.7.*; all by default."),
    backend: str = typer.Option("", help="cuda or hip; both by default."),
    operator: list[str] = typer.Option([], help="Operator family it is about, for example softmax; repeatable."),
    name_used: list[str] = typer.Option([], help="Dotted name whose use breaks it, for example triton.language.math.tanh; repeatable."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Add a rule. It is a CANDIDATE until a proof or failures of two tasks make it ACTIVE."""
    skill = skill_pb2.Skill(
        kind=skill_pb2.SKILL_KIND_PITFALL,
        rule=rule,
        instead=instead,
        scope=skill_pb2.SkillScope(triton_versions=triton, backend=backend, operator_families=operator),
        patterns=[skill_pb2.SkillPattern(name_used=name) for name in name_used],
    )
    request = memory_pb2.CreateSkillRequest(request_id=uuid.uuid4().hex, skill=skill)
    _told(asyncio.run(_call(state_dir, lambda client: client.create_skill(request, timeout_s=30))).skill, json_output)


@app.command("edit")
@connecting
def edit_rule(
    name: str = typer.Argument(help="Resource name, skills/…"),
    rule: str | None = typer.Option(None, help="The new sentence."),
    instead: str | None = typer.Option(None, help="What to do instead; empty takes it away."),
    triton: str | None = typer.Option(None, help="Versions of Triton it holds for; empty means all."),
    etag: str = typer.Option("", help="Refuse if the rule is not the one that `rules show --json` gave this etag."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Change a rule's sentence, advice or versions; what changes meanwhile is not overwritten."""
    if rule is None and instead is None and triton is None:
        raise CliError("nothing to change; give --rule, --instead or --triton")

    async def change(client: AsyncMemoryClient) -> skill_pb2.Skill:
        skill = (await client.get_skill(memory_pb2.GetSkillRequest(name=_full(name)), timeout_s=30)).skill
        skill.etag = etag or skill.etag
        request = memory_pb2.UpdateSkillRequest(skill=skill)
        for path, value in (("rule", rule), ("instead", instead)):
            if value is not None:
                setattr(request.skill, path, value)
                request.update_mask.paths.append(path)
        if triton is not None:
            request.skill.scope.triton_versions = triton
            request.update_mask.paths.append("scope")
        return (await client.update_skill(request, timeout_s=30)).skill

    _told(asyncio.run(_call(state_dir, change)), json_output)


@app.command("retire")
@connecting
def retire_rule(
    name: str = typer.Argument(help="Resource name, skills/…"),
    reason: str = typer.Option("retired by hand", help="Why; it is kept with the rule."),
    etag: str = typer.Option("", help="Refuse if the rule is not the one that `rules show --json` gave this etag."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Retire a rule: it is kept with its evidence and shown to no generator any more."""
    skill = skill_pb2.Skill(name=_full(name), etag=etag, state=skill_pb2.SKILL_STATE_RETIRED, retire_reason=reason)
    request = memory_pb2.UpdateSkillRequest(skill=skill)
    request.update_mask.paths.extend(["state", "retire_reason"])
    _told(asyncio.run(_call(state_dir, lambda client: client.update_skill(request, timeout_s=30))).skill, json_output)


@app.command("stats")
@connecting
def show_stats(
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Count rules by state, failures by cause, and what came of showing rules."""
    request = memory_pb2.GetMemoryStatsRequest()
    found = asyncio.run(_call(state_dir, lambda client: client.get_memory_stats(request, timeout_s=30)))
    if json_output:
        print_json(message_json(found))
        return
    table, counters = Table("what", "how many"), found.counters
    for count in found.skills:
        kind, state = enum_name(skill_pb2.SkillKind, count.kind) or "", enum_name(skill_pb2.SkillState, count.state) or ""
        table.add_row(f"{kind.lower()}s, {state}", str(count.count))
    table.add_row("shown to fail by a proof", str(found.proven_skills))
    for cause in found.failures:
        table.add_row(f"failures, {enum_name(evaluation_pb2.Cause, cause.cause)}", f"{cause.count} ({cause.taught} taught a rule)")
    table.add_row("tasks that failed", str(found.failed_tasks))
    table.add_row("generations told of", str(found.outcomes))
    table.add_row("rules shown, broken, heeded", f"{counters.shown}, {counters.broken}, {counters.avoided}")
    Console().print(table)


@app.command("export")
@connecting
def export_rules(
    out: Path | None = typer.Option(None, help="File to write; standard output by default."),
    style: RuleFormat = typer.Option(RuleFormat.JSONL, "--format", help="jsonl: with evidence; text: rule||distinct tasks."),
    state: str = typer.Option("", help="Only rules in this state: candidate, active or retired."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
) -> None:
    """Write the rules, the oldest first, one a line."""
    wanted = _state(state)
    skills = asyncio.run(_list(state_dir, wanted))
    text = "".join(f"{to_line(skill, style)}\n" for skill in reversed(skills))
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


@app.command("import")
@connecting
def import_rules(
    file: Path = typer.Argument(help="File that `rules export` wrote, or one of the paper's `rule||score` lines."),
    style: RuleFormat | None = typer.Option(None, "--format", help="jsonl or text; told from each line by default."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the memory's state."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Take rules over as CANDIDATEs, never ACTIVE: this memory's own proofs and tasks decide; scores and proofs of others do not count."""
    try:
        skills = list(from_lines(file.read_text(encoding="utf-8").splitlines(), style))
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file} cannot be read: {error}") from None
    results = asyncio.run(_call(state_dir, lambda client: _import(client, skills)))
    names = [enum_name(memory_pb2.ImportOutcome, result.outcome) or "" for _, result in results]
    counts = {name.lower(): names.count(name) for name in ("IMPORTED", "KNOWN", "REFUSED")}
    refused = [{"line": number, "message": result.message} for number, result in results if result.message]
    if json_output:
        print_json(counts | {"refusals": refused})
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()))
    for refusal in refused:
        console.print(f"line {refusal['line']}: {refusal['message']}")


@app.command("verify")
@connecting
def verify_rules(
    target: list[str] = typer.Option(["sm_90"], help="Target to compile for, for example sm_80 or gfx942; repeatable."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Tell what is shown and change no rule."),
    results: Path | None = typer.Option(
        None, help="File that keeps what runs with other versions of Triton have shown; this run is added."
    ),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder of the state of local services."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object in place of a markdown table."),
) -> None:
    """Compile every reproducer with the evaluator's Triton: what fails as it should is proven, what compiles is retired with the proof."""

    async def run() -> list[Row]:
        async with (
            addresses(["memory", "evaluator"], state_dir) as at,
            at.client(AsyncMemoryClient) as memory,
            at.client(AsyncEvaluatorClient) as evaluator,
        ):
            skills = [skill for skill in await _pages(memory) if skill.state != skill_pb2.SKILL_STATE_RETIRED]
            return await verify(memory, evaluator, skills, target, dry=dry_run)

    rows = remembered(results, asyncio.run(run()))
    if json_output:
        print_json({"results": [asdict(row) for row in rows]})
    else:
        sys.stdout.write(f"{markdown(rows)}\n")


async def _import(client: AsyncMemoryClient, skills: list[tuple[int, skill_pb2.Skill]]) -> list[tuple[int, memory_pb2.ImportResult]]:
    results: list[tuple[int, memory_pb2.ImportResult]] = []
    for batch in batches(skills):
        request = memory_pb2.ImportSkillsRequest(skills=[skill for _, skill in batch])
        answer = await client.import_skills(request, timeout_s=120)
        results += [(number, result) for (number, _), result in zip(batch, answer.results, strict=True)]
    return results


def _told(skill: skill_pb2.Skill, json_output: bool) -> None:
    if json_output:
        print_json(message_json(skill))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{skill.name}  {enum_name(skill_pb2.SkillState, skill.state)}\n{skill.rule}\n{skill.instead}".rstrip())


def _full(name: str) -> str:
    return name if name.startswith("skills/") else f"skills/{name}"


def _state(name: str) -> skill_pb2.SkillState.ValueType:
    try:
        return skill_pb2.SkillState.Value(f"SKILL_STATE_{name.upper() or 'UNSPECIFIED'}")
    except ValueError:
        raise CliError("--state must be candidate, active or retired") from None


async def _call(state_dir: Path, work: Callable[[AsyncMemoryClient], Awaitable[_Answer]]) -> _Answer:
    async with addresses(["memory"], state_dir) as at, at.client(AsyncMemoryClient) as client:
        return await work(client)


async def _list(state_dir: Path, state: skill_pb2.SkillState.ValueType = skill_pb2.SKILL_STATE_UNSPECIFIED) -> list[skill_pb2.Skill]:
    return await _call(state_dir, lambda client: _pages(client, state))


async def _pages(
    client: AsyncMemoryClient, state: skill_pb2.SkillState.ValueType = skill_pb2.SKILL_STATE_UNSPECIFIED
) -> list[skill_pb2.Skill]:
    skills: list[skill_pb2.Skill] = []
    token = ""
    while True:
        page = await client.list_skills(memory_pb2.ListSkillsRequest(page_size=1000, page_token=token, state=state), timeout_s=30)
        skills += page.skills
        token = page.next_page_token
        if not token:
            return skills
