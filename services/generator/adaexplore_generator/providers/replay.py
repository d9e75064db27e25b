"""Recording what endpoints answer, and answering from a record without any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from adaexplore_generator.domain import ModelInfo, Prompt, Reply, Sampling
from adaexplore_generator.errors import PromptTooLongError
from adaexplore_generator.providers import ChatEndpoint
from adaexplore_generator.providers.cassette import CassetteError, CassetteWriter, Entry, call_keys, read_cassette


class RecordingEndpoint:
    """An endpoint whose answers are recorded; faults are not. See `ChatEndpoint`.

    Args:
        endpoint: The endpoint.
        cassette: Where its answers go.

    """

    def __init__(self, endpoint: ChatEndpoint, cassette: CassetteWriter) -> None:
        self._endpoint, self._cassette = endpoint, cassette

    @property
    def name(self) -> str:
        """Name of the endpoint's provider."""
        return self._endpoint.name

    @property
    def host(self) -> str:
        """Host of the endpoint."""
        return self._endpoint.host

    @property
    def default_model(self) -> str:
        """The endpoint's model for requests that name none."""
        return self._endpoint.default_model

    @property
    def attempts_that_may_be_paid(self) -> int:
        """As the endpoint says."""
        return self._endpoint.attempts_that_may_be_paid

    async def complete(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], name: str = "") -> Reply:
        """Answer a prompt by the endpoint and record the answer."""
        try:
            reply = await self._endpoint.complete(prompt, sampling, received, name)
        except PromptTooLongError as error:
            # No fault, but an answer that decides which prompt comes next.
            self._record(prompt, sampling, None, error.message)
            raise
        self._record(prompt, sampling, reply)
        return reply

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List the endpoint's models."""
        return await self._endpoint.list_models()

    async def close(self) -> None:
        """Release the endpoint's connections."""
        await self._endpoint.close()

    def _record(self, prompt: Prompt, sampling: Sampling, reply: Reply | None, too_long: str = "") -> None:
        keys = call_keys(self.name, sampling.model, prompt, sampling)
        try:
            self._cassette.append(Entry(*keys, self.name, sampling.model, reply, too_long))
        except OSError as error:
            # The reply is paid for, so it is worth more than the record of it.
            structlog.get_logger().error("reply_not_recorded", problem=error.strerror)


class ReplayEndpoint:
    """Answers from a cassette, and never from anywhere else; see `ChatEndpoint`.

    Each reply is given once: the n-th use of a prompt gets its n-th reply. A prompt that is not in the cassette gets the reply to one that
    differs in nothing but numbers, if there is one.

    Args:
        path: The cassette, read when it is needed first; None if there is none.

    """

    name = "replay"
    host = ""
    default_model = ""
    attempts_that_may_be_paid = 1

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: tuple[Entry, ...] | None = None
        self._asked: tuple[tuple[str, str], ...] = ()
        self._left: dict[str, list[Entry]] = {}
        self._given: set[int] = set()

    async def complete(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], name: str = "") -> Reply:
        """Return what was recorded for a prompt.

        Raises:
            PromptTooLongError: The endpoint said that the prompt is too long.
            CassetteError: There is no cassette, or nothing is left in it for this prompt.

        """
        self._load()
        # A request may leave the model out: then whatever was asked is meant.
        wanted = [pair for pair in self._asked if sampling.model in ("", pair[1])]
        keys = [call_keys(provider, model, prompt, sampling) for provider, model in wanted]
        entry = self._take(key for key, _ in keys)
        if entry is None:
            entry = self._take(loose for _, loose in keys)
            if entry is None:
                raise self._missing()
            structlog.get_logger().info("replayed_with_other_numbers", prompt_digest=prompt.digest)
        reply = entry.answer()
        received(len(reply.text) + len(reply.refusal))
        return reply

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List the models whose replies were recorded; empty if there is no cassette."""
        if self._path is None:
            return ()
        names = dict.fromkeys(entry.asked_model or (entry.reply.model if entry.reply else "") for entry in self._load())
        return tuple(ModelInfo(self.name, name, free=True) for name in names if name)

    async def close(self) -> None:
        """Do nothing; there is nothing to release."""

    def _load(self) -> tuple[Entry, ...]:
        if self._entries is None:
            if self._path is None:
                raise CassetteError("there is no cassette to replay: set ADAEXPLORE_GENERATOR_REPLAY_FILE to a file that was recorded")
            self._entries = tuple(read_cassette(self._path))
            self._asked = tuple(dict.fromkeys((entry.provider, entry.asked_model) for entry in self._entries))
            for entry in reversed(self._entries):
                for key in (entry.key, entry.loose_key):
                    self._left.setdefault(key, []).append(entry)
        return self._entries

    def _take(self, keys: Iterable[str]) -> Entry | None:
        for key in keys:
            left = self._left.get(key, [])
            while left:
                entry = left.pop()
                if id(entry) not in self._given:
                    self._given.add(id(entry))
                    return entry
        return None

    def _missing(self) -> CassetteError:
        return CassetteError(
            f"{self._path} holds no reply to this prompt that was not given already; repeat the recorded run with the same task, seed and "
            "settings and a state folder of its own, or record a new one"
        )
