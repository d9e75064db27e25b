"""Follows a search: a live tree on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from adaexplore.cli.output import enum_name, timing_words, verdict_words
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.runtime.errors import ServiceError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2

_RECONNECT_S = 1.0
_UNREACHABLE_AFTER = 60
ENDED = (pb.SEARCH_STATE_SUCCEEDED, pb.SEARCH_STATE_FAILED, pb.SEARCH_STATE_CANCELLED)
_AT_REST = (*ENDED, pb.SEARCH_STATE_PAUSED, pb.SEARCH_STATE_INTERRUPTED)


@dataclass
class Progress:
    """What is known of a search while it runs."""

    title: str
    max_steps: int
    nodes: dict[int, pb.Node] = field(default_factory=dict)
    best_step: int = 0
    stage: str = "starting"
    lessons: list[str] = field(default_factory=list)
    last_sequence: int = 0

    def apply(self, event: pb.SearchEvent) -> str:
        """Take in one event and return the line that tells it, empty for none."""
        self.last_sequence = event.sequence
        kind = event.WhichOneof("event")
        if kind == "step_started":
            self.stage = f"step {event.step_started.step}: selected parent {event.step_started.parent_step}"
        elif kind == "step_progress":
            self.stage = f"step {event.step_progress.step}: {event.step_progress.stage} {event.step_progress.message}"
        elif kind == "node_recorded":
            return self._node(event.node_recorded)
        elif kind == "skill_learnt":
            return self._lesson(f"learnt at step {event.skill_learnt.step}: {event.skill_learnt.skill.rule}")
        elif kind == "skill_respected":
            how = "sent back" if event.skill_respected.by_check else "avoided"
            return self._lesson(f"respected at step {event.skill_respected.step} ({how}): {event.skill_respected.rule}")
        return ""

    def _node(self, recorded: pb.NodeRecorded) -> str:
        self.nodes[recorded.node.step] = recorded.node
        if recorded.best:
            self.best_step = recorded.node.step
        return f"step {recorded.node.step}/{self.max_steps} from {recorded.node.parent_step}: {node_words(recorded.node)}" + (
            "  ← best so far" if recorded.best else ""
        )

    def _lesson(self, text: str) -> str:
        self.lessons.append(text)
        return f"  {text}"


def node_words(node: pb.Node) -> str:
    """Return a node in one line: move, verdict, latency or what went wrong."""
    move = (enum_name(kernel_pb2.Move, node.move) or "SEED").lower()
    if not node.HasField("evaluation"):
        return f"{move}, no kernel: {node.candidate.message}"
    words = f"{move}, {verdict_words(node.evaluation)}"
    if node.evaluation.verdict == evaluation_pb2.VERDICT_PASSED:
        return f"{words}, {timing_words(node.evaluation.timing)}"
    return f"{words}: {node.evaluation.failure.message[:160]}"


class View(Protocol):
    """Shows progress."""

    def show(self, progress: Progress, line: str) -> None:
        """Show the new state; `line` tells the newest event, empty for none."""


class LineView:
    """One line an event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, progress: Progress, line: str) -> None:
        """Print the line."""
        if line:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class TreeView:
    """The tree, the best so far and the newest lessons, redrawn in place."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console

    def show(self, progress: Progress, line: str) -> None:
        """Redraw."""
        best = progress.nodes.get(progress.best_step)
        head = Text(
            f"{progress.title}   {len(progress.nodes)}/{progress.max_steps} steps   {progress.stage}", overflow="ellipsis", no_wrap=True
        )
        found = Text(
            f"best so far: step {best.step}, {timing_words(best.evaluation.timing)}" if best else "best so far: none", style="bold green"
        )
        lessons = [Text(text, style="yellow", overflow="ellipsis", no_wrap=True) for text in progress.lessons[-3:]]
        self._live.update(Group(head, self._tree(progress), found, *lessons))

    def _tree(self, progress: Progress) -> Tree:
        root = Tree("root")
        branches = {0: root}
        room = max(6, self._console.height - 8)
        kept = set(sorted(progress.nodes)[-room:]) | {progress.best_step}
        for step in sorted(progress.nodes):
            node = progress.nodes[step]
            parent = branches.get(node.parent_step, root)
            style = (
                "bold green"
                if step == progress.best_step
                else "green"
                if node.evaluation.verdict == evaluation_pb2.VERDICT_PASSED
                else "dim"
            )
            label = Text(f"{step} {node_words(node)}", style=style, overflow="ellipsis", no_wrap=True)
            branches[step] = parent.add(label) if step in kept else parent
        return root


@contextlib.contextmanager
def view(console: Console) -> Iterator[View]:
    """Yield the view that fits the console; a quiet console shows nothing."""
    if not console.is_terminal or console.quiet:
        yield LineView(console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield TreeView(live, console)


async def _events(client: AsyncControllerClient, name: str, progress: Progress, lost: Callable[[], str]) -> AsyncIterator[pb.SearchEvent]:
    """Yield events without a gap across reconnections, until the search is at rest."""
    failures = 0
    while True:
        try:
            async for response in client.watch_search(pb.WatchSearchRequest(name=name, after_sequence=progress.last_sequence)):
                failures = 0
                yield response.event
            search = (await client.get_search(pb.GetSearchRequest(name=name), timeout_s=30)).search
            if search.state in _AT_REST and search.last_sequence <= progress.last_sequence:
                return
        except ServiceError as error:
            failures += 1
            if error.code.name not in ("UNAVAILABLE", "CANCELLED") or failures > _UNREACHABLE_AFTER or lost():
                raise
        await asyncio.sleep(_RECONNECT_S)


async def follow(client: AsyncControllerClient, search: pb.Search, console: Console, lost: Callable[[], str]) -> pb.Search:
    """Show a search until it ends, is paused or is interrupted, and return it as it is then.

    Args:
        client: Client of the controller.
        search: The search.
        console: Where to show it.
        lost: Says why there is no use in waiting for the controller, empty while there is.

    """
    progress = Progress(search.spec.task.name, search.spec.budget.max_steps)
    with view(console) as shown:
        async for event in _events(client, search.name, progress, lost):
            shown.show(progress, progress.apply(event))
    return (await client.get_search(pb.GetSearchRequest(name=search.name), timeout_s=30)).search
