"""Watches a search to its end, and says how to go on when it is interrupted."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR
from adaexplore.cli.follow import ENDED, follow
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.runtime.errors import ServiceError


def resume_hint(name: str, state_dir: Path, folder: Path) -> str:
    """Return the command that continues a search and writes to the same folder."""
    where = "" if state_dir == DEFAULT_STATE_DIR else f" --state-dir {state_dir}"
    return f"adaexplore search resume {name} --out {folder}{where}"


async def watch_to_rest(
    client: AsyncControllerClient, search: pb.Search, console: Console, hint: str, lost: Callable[[], str]
) -> pb.Search:
    """Show a search until it is at rest; Ctrl-C pauses it.

    Raises:
        CliError: It was interrupted or paused; the message says how to continue.

    """
    task = asyncio.ensure_future(follow(client, search, console, lost))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    try:
        search = await task
    except asyncio.CancelledError:
        await client.pause_search(pb.PauseSearchRequest(name=search.name), timeout_s=30)
        raise CliError(f"paused {search.name}; continue with: {hint}", ExitCode.INTERRUPTED) from None
    except ServiceError as error:
        raise CliError(
            f"{lost() or error.message}; continue with: {hint}",
            ExitCode.INFRASTRUCTURE,
        ) from error
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    if search.state not in ENDED:
        raise CliError(f"{search.name} is at rest; continue with: {hint}", ExitCode.INTERRUPTED)
    return search
