"""`adaexplore search`: searches that run, rest or have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console
from rich.table import Table

from adaexplore.cli.connection import connecting
from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, Reached, addresses
from adaexplore.cli.follow import node_words
from adaexplore.cli.optimize import writable_folder
from adaexplore.cli.output import enum_name, print_json
from adaexplore.cli.results import all_nodes, finish, node_json, search_json
from adaexplore.cli.watching import resume_hint, watch_to_rest
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb

T = TypeVar("T")
app = typer.Typer(help="Searches that run, rest or have ended.", no_args_is_help=True)
_NAME = typer.Argument(help="Resource name, searches/…")
_STATE_DIR = typer.Option(DEFAULT_STATE_DIR, help="Folder of the controller's state.")
_JSON = typer.Option(False, "--json", help="Print one JSON object.")
_OUT = typer.Option(None, help="Folder for the kernel and the report.")


def _resource(name: str) -> str:
    return name if name.startswith("searches/") else f"searches/{name}"


def _call(state_dir: Path, act: Callable[[AsyncControllerClient, Reached], Awaitable[T]], *, drives: bool = False) -> T:
    async def run() -> T:
        flags = {"controller": ["--resume", "on-request"]}
        async with addresses(["controller"], state_dir, flags, alone=not drives) as at, at.client(AsyncControllerClient) as client:
            return await act(client, at)

    return asyncio.run(run())


@app.command("list")
@connecting
def list_searches(state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """List the searches, the newest first."""
    searches = _call(state_dir, _all_searches)
    if json_output:
        print_json({"searches": [search_json(search) for search in searches]})
        return
    table = Table("search", "task", "state", "steps", "best")
    for search in searches:
        best = f"{search.best_speedup:.2f}×" if search.HasField("best_speedup") else "–"
        state = enum_name(pb.SearchState, search.state) or ""
        table.add_row(search.name, search.spec.task.name, state, f"{search.steps}/{search.spec.budget.max_steps}", best)
    Console().print(table)


async def _all_searches(client: AsyncControllerClient, _at: Reached) -> list[pb.Search]:
    searches: list[pb.Search] = []
    token = ""
    while True:
        page = await client.list_searches(pb.ListSearchesRequest(page_size=1000, page_token=token), timeout_s=30)
        searches += page.searches
        token = page.next_page_token
        if not token:
            return searches


@app.command("show")
@connecting
def show(name: str = _NAME, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """Show one search with its tree."""

    async def act(client: AsyncControllerClient, at: Reached) -> tuple[pb.Search, list[pb.Node]]:
        search = (await client.get_search(pb.GetSearchRequest(name=_resource(name)), timeout_s=30)).search
        return search, await all_nodes(client, search.name)

    search, nodes = _call(state_dir, act)
    if json_output:
        print_json(search_json(search) | {"nodes": [node_json(node) for node in nodes]})
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{search.name}  {search.spec.task.name}  {enum_name(pb.SearchState, search.state)}  {search.error_message}")
    for node in nodes:
        console.print(f"{'  ' * node.depth}{node.step} {node_words(node)}{'  ← best' if node.name == search.best_node else ''}")


@app.command("watch")
@connecting
def watch(name: str = _NAME, state_dir: Path = _STATE_DIR, out: Path | None = _OUT, json_output: bool = _JSON) -> int:
    """Follow a search to its end."""
    return _follow(_resource(name), state_dir, out, json_output, resume=False)


@app.command("resume")
@connecting
def resume(name: str = _NAME, state_dir: Path = _STATE_DIR, out: Path | None = _OUT, json_output: bool = _JSON) -> int:
    """Continue a search that is paused or was interrupted, and follow it to its end."""
    return _follow(_resource(name), state_dir, out, json_output, resume=True)


def _follow(name: str, state_dir: Path, out: Path | None, json_output: bool, *, resume: bool) -> int:
    async def act(client: AsyncControllerClient, at: Reached) -> ExitCode:
        if resume:
            search = (await client.resume_search(pb.ResumeSearchRequest(name=name), timeout_s=30)).search
        else:
            search = (await client.get_search(pb.GetSearchRequest(name=name), timeout_s=30)).search
        folder = writable_folder(out or Path("adaexplore-out") / Path(search.spec.task.name).stem)
        hint = resume_hint(search.name, state_dir, folder)
        search = await watch_to_rest(client, search, Console(stderr=True, quiet=json_output), hint, at.lost)
        return await finish(client, search, folder, json_output)

    return int(_call(state_dir, act, drives=resume))


@app.command("pause")
@connecting
def pause(name: str = _NAME, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """Pause a search after the steps in flight."""

    async def act(client: AsyncControllerClient, at: Reached) -> pb.Search:
        return (await client.pause_search(pb.PauseSearchRequest(name=_resource(name)), timeout_s=30)).search

    _print_state(_call(state_dir, act), json_output)


@app.command("cancel")
@connecting
def cancel(name: str = _NAME, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """Cancel a search for good; what it found is kept."""

    async def act(client: AsyncControllerClient, at: Reached) -> pb.Search:
        return (await client.cancel_search(pb.CancelSearchRequest(name=_resource(name)), timeout_s=30)).search

    _print_state(_call(state_dir, act), json_output)


def _print_state(search: pb.Search, json_output: bool) -> None:
    if json_output:
        print_json(search_json(search))
    else:
        print(f"{search.name} {enum_name(pb.SearchState, search.state)}")


@app.command("best")
@connecting
def best(name: str = _NAME, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """Print the source of the best kernel."""

    async def act(client: AsyncControllerClient, at: Reached) -> pb.Node:
        search = (await client.get_search(pb.GetSearchRequest(name=_resource(name)), timeout_s=30)).search
        if not search.best_node:
            raise CliError(f"{search.name} has no PASSED kernel (yet)", ExitCode.KERNEL_FAILED)
        return (await client.get_node(pb.GetNodeRequest(name=search.best_node), timeout_s=30)).node

    node = _call(state_dir, act)
    if json_output:
        print_json(node_json(node) | {"source": node.candidate.kernel.source})
    else:
        print(node.candidate.kernel.source)
