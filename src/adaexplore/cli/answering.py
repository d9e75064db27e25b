"""`adaexplore generator`: answering prompts in place of a model."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import typer
from google.protobuf.duration_pb2 import Duration
from rich.console import Console

from adaexplore.cli.connection import connecting
from adaexplore.cli.failures import CliError
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, address_variable, addresses
from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError

app = typer.Typer(help="Answer prompts in place of a model.", no_args_is_help=True)
_WAIT_S = 30


@app.callback()
def _group() -> None:
    """Answer prompts in place of a model."""


@app.command("answer")
@connecting
def answer(
    command: str = typer.Option("", "--command", help="Shell command that reads a prompt from standard input and writes the reply."),
    count: int = typer.Option(0, min=0, help="Prompts to answer before it ends; 0 means all that come with --command, else one."),
    lease: int = typer.Option(600, min=1, max=86_400, help="Seconds that an answer may take before another may take the prompt."),
    worker: str = typer.Option("", help="Name under which prompts are taken."),
) -> None:
    """Take prompts of searches that run with `--generator external` and answer them.

    Without --command the prompt is written to standard output and the reply read from standard input.
    """
    if not os.environ.get(address_variable("generator")):
        raise CliError(f"{address_variable('generator')} is not set: start `adaexplore serve all` and use the lines it prints")
    write = _by_command(command, lease) if command else _by_hand
    asyncio.run(_answer(write, count or (sys.maxsize if command else 1), lease, worker or ("command" if command else "hand")))


async def _answer(write: Callable[[str], str], count: int, lease_s: int, worker: str) -> None:
    console = Console(stderr=True, highlight=False, markup=False)
    async with addresses(["generator"], DEFAULT_STATE_DIR) as at, at.client(AsyncGeneratorClient) as client:
        while count > 0:
            claim = pb.ClaimRequestRequest(worker=worker, lease=Duration(seconds=lease_s), wait=Duration(seconds=_WAIT_S))
            claimed = await client.claim_request(claim, timeout_s=_WAIT_S + 30)
            if not claimed.HasField("request"):
                continue
            prompt = "\n\n".join(f"# {message.role}\n{message.content}" for message in claimed.request.messages)
            text = await asyncio.to_thread(write, prompt)
            reply = pb.SubmitReplyRequest(lease_token=claimed.request.lease_token, text=text)
            if not text.strip():
                reply.refusal = "an empty answer"
            try:
                await client.submit_reply(reply, timeout_s=60)
            except FailedPreconditionError as error:
                console.print(error.message)
                continue
            console.print(f"answered a prompt of {len(prompt):,} characters with {len(text):,}")
            count -= 1


def _by_hand(prompt: str) -> str:
    sys.stdout.write(prompt + "\n")
    sys.stdout.flush()
    return sys.stdin.read()


def _by_command(command: str, limit_s: float) -> Callable[[str], str]:
    def write(prompt: str) -> str:
        # The command is the user's own; the prompt reaches it on standard input alone.
        try:
            done = subprocess.run(command, shell=True, input=prompt, capture_output=True, text=True, timeout=limit_s, check=False)  # noqa: S602
        except subprocess.TimeoutExpired:
            raise CliError(f"the command did not answer within the lease of {limit_s:g} s; raise --lease") from None
        if done.returncode:
            raise CliError(f"the command ended with {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
        return done.stdout

    return write
