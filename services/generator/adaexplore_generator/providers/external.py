"""Somebody outside as the model: prompts wait at a desk until an agent or a person takes and answers them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from adaexplore.runtime.errors import UnavailableError
from adaexplore_generator.domain import FinishReason, ModelInfo, Prompt, Reply, Sampling, Usage
from adaexplore_generator.replies.desk import Desk

_POLL_S = 0.25


class ExternalEndpoint:
    """A model that is whoever claims its prompts; see `ChatEndpoint`.

    Args:
        desk: Where prompts wait.
        patience_s: How long a prompt waits for its answer, in seconds.
        sleep: Sleeps for seconds.

    """

    name = "external"
    host = ""
    default_model = "external"
    attempts_that_may_be_paid = 1

    def __init__(self, desk: Desk, patience_s: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._desk, self._patience_s, self._sleep = desk, patience_s, sleep

    async def complete(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], name: str) -> Reply:
        """Wait until somebody has answered a prompt.

        Raises:
            UnavailableError: Nobody did (PROVIDER_UNREACHABLE), or the store cannot be used (STORE_UNAVAILABLE).

        """
        place = hashlib.sha256(name.encode()).hexdigest()
        await self._desk.post(place, prompt, sampling)
        try:
            async with asyncio.timeout(self._patience_s):
                while (found := await self._desk.look(place)) is None:
                    await self._sleep(_POLL_S)
        except TimeoutError as error:
            await self._desk.withdraw(place)
            message = f"nobody has answered the prompt within {self._patience_s:g} s; start somebody with `adaexplore generator answer`"
            raise UnavailableError(message, reason="PROVIDER_UNREACHABLE") from error
        except asyncio.CancelledError:
            await asyncio.shield(self._desk.withdraw(place))
            raise
        received(len(found.text))
        usage = Usage(found.input_tokens, output_tokens=found.output_tokens, calls=1, cost_micro_usd=None)
        return Reply(found.text, FinishReason.STOP, found.model, usage, found.refusal, prompt.digest)

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return the one entry that stands for whoever answers."""
        return (ModelInfo(self.name, self.default_model, free=True),)

    async def close(self) -> None:
        """Do nothing; the desk is closed by who opened it."""
