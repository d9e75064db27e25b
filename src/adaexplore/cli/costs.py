"""What a search would use and cost, without starting it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from adaexplore.cli.failures import ExitCode
from adaexplore.cli.fleet import addresses
from adaexplore.cli.output import Json, enum_name, optional, print_json, usage_json
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.generator.v1 import generator_pb2
from adaexplore.types.v1 import kernel_pb2

_LIMIT_S = 900.0


async def estimate(spec: pb.SearchSpec, state_dir: Path, json_output: bool) -> ExitCode:
    """Print what a search would use; the task is described, no model is asked and nothing is started."""
    flags = {"controller": ["--resume", "on-request"]}
    async with addresses(["controller"], state_dir, flags) as at, at.client(AsyncControllerClient) as client:
        found = await client.estimate_search(pb.EstimateSearchRequest(spec=spec), timeout_s=_LIMIT_S)
    if json_output:
        print_json(_estimate_json(spec, found))
    else:
        _show(spec, found, Console(highlight=False, markup=False, soft_wrap=True))
    return ExitCode.OK


def usd(micro_usd: int | None) -> str:
    """Return an amount in words; `unknown` for None."""
    return "unknown" if micro_usd is None else f"${micro_usd / 1e6:,.4f}"


def _cost(usage: generator_pb2.Usage) -> str:
    return usd(usage.cost_micro_usd if usage.HasField("cost_micro_usd") else None)


def _show(spec: pb.SearchSpec, found: pb.EstimateSearchResponse, console: Console) -> None:
    steps = spec.budget.max_steps
    table = Table("what", "calls", "prompt tokens", "reply tokens", "cost")
    for item in found.generations:
        move = enum_name(kernel_pb2.Move, item.move) or ""
        table.add_row(f"one {move} step, expected", *_row(item.expected))
        table.add_row(f"one {move} step, at most", *_row(item.worst_case))
    table.add_row(f"{steps} steps, expected", *_row(found.expected))
    table.add_row(f"{steps} steps, at most", *_row(found.worst_case))
    console.print(table)
    console.print(f"{found.provider} {found.model or '(the endpoint chooses the model)'}: {_price(found)}")
    if found.HasField("affordable_steps"):
        console.print(f"{usd(spec.budget.max_cost_micro_usd)} allow about {found.affordable_steps} steps")
    console.print("nothing was started")


def _row(usage: generator_pb2.Usage) -> tuple[str, str, str, str]:
    return f"{usage.calls:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}", _cost(usage)


def _price(found: pb.EstimateSearchResponse) -> str:
    if not found.HasField("price"):
        free = found.worst_case.HasField("cost_micro_usd") and found.worst_case.cost_micro_usd == 0
        return "costs nothing" if free else "its price is unknown; give it in ADAEXPLORE_GENERATOR_PRICES_FILE to limit costs"
    price = found.price
    rates = (price.input_micro_usd_per_million, price.cached_micro_usd_per_million, price.output_micro_usd_per_million)
    read, cached, written = (f"${rate / 1e6:g}" for rate in rates)
    return f"{read} per million prompt tokens ({cached} cached), {written} per million reply tokens; {price.source}, {price.date}"


def _estimate_json(spec: pb.SearchSpec, found: pb.EstimateSearchResponse) -> Json:
    return {
        "task": spec.task.name,
        "provider": found.provider,
        "model": found.model or None,
        "steps": spec.budget.max_steps,
        "generations": [
            {
                "move": enum_name(kernel_pb2.Move, item.move),
                "expected": usage_json(item.expected),
                "worst_case": usage_json(item.worst_case),
            }
            for item in found.generations
        ],
        "expected": usage_json(found.expected),
        "worst_case": usage_json(found.worst_case),
        "max_cost_micro_usd": optional(spec.budget, "max_cost_micro_usd"),
        "affordable_steps": optional(found, "affordable_steps"),
        "price_date": found.price.date or None,
        "price_source": found.price.source or None,
    }
