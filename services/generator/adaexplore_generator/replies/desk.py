"""The desk where prompts wait for somebody outside to answer them, shared by all replicas and kept across restarts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore.runtime.migrations import prepare
from adaexplore.runtime.sql import insert_or, transaction
from adaexplore_generator.digests import sha256_of
from adaexplore_generator.domain import Message, Prompt, Sampling
from adaexplore_generator.replies.tables import SCHEMA, external_requests

# A generation that has not looked for its answer so long is gone, killed perhaps: nobody is asked to answer it until it comes back.
GONE_S = 15.0
# The answer of a generation lies here so long, in case that it died before it stored it.
_KEPT_S = 86_400.0


@dataclass(frozen=True)
class ExternalRequest:
    """A prompt that somebody took to answer it; `lease_expire` is in seconds since the epoch."""

    prompt: Prompt
    sampling: Sampling
    lease_token: str
    lease_expire: float
    claims: int


@dataclass(frozen=True)
class ExternalReply:
    """An answer; token counts are 0 where nobody counted."""

    text: str
    refusal: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Desk:
    """Prompts, leases and answers in one database.

    Every method raises UnavailableError (STORE_UNAVAILABLE) if the database cannot be used.

    Args:
        engine: An engine over the database of the reply store.
        now: Returns the present instant.

    """

    def __init__(self, engine: AsyncEngine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now
        self._ready = False

    async def open(self) -> None:
        """Prepare the tables, once."""
        if not self._ready:
            await prepare(self._engine, SCHEMA)
            self._ready = True

    async def post(self, name: str, prompt: Prompt, sampling: Sampling) -> None:
        """Put a prompt on the desk; the same prompt under the same name is there already, with its answer if it has one."""
        await self.open()
        digest = sha256_of([prompt.digest, asdict(sampling)])
        body = json.dumps({"prompt": [[item.role, item.content] for item in prompt.messages], "sampling": asdict(sampling)})
        fresh = {"digest": digest, "prompt": body, "create_time": self._instant(), "seen": self._instant(), "claims": 0}
        row = external_requests.c
        async with transaction(self._engine) as connection:
            await connection.execute(delete(external_requests).where(row.reply.is_not(None), row.seen < self._instant() - _KEPT_S))
            await connection.execute(delete(external_requests).where(row.id == name, row.digest != digest))
            await connection.execute(insert_or(connection, external_requests).values(id=name, **fresh).on_conflict_do_nothing())

    async def look(self, name: str) -> ExternalReply | None:
        """Return the answer to a prompt, None if there is none yet; whoever looks is waiting."""
        row = external_requests.c
        async with transaction(self._engine) as connection:
            found = (await connection.execute(select(row.reply, row.seen).where(row.id == name))).first()
            if found and found.seen < self._instant() - GONE_S / 3:
                await connection.execute(update(external_requests).where(row.id == name).values(seen=self._instant()))
        return ExternalReply(**json.loads(found.reply)) if found and found.reply else None

    async def withdraw(self, name: str) -> None:
        """Take a prompt off the desk: nobody waits for its answer."""
        async with transaction(self._engine) as connection:
            await connection.execute(delete(external_requests).where(external_requests.c.id == name))

    async def claim(self, worker: str, lease_s: float) -> ExternalRequest | None:
        """Take the prompt that has waited longest, of those that a generation waits for and nobody holds; None if there is none."""
        await self.open()
        row, now = external_requests.c, self._instant()
        free = or_(row.lease_expire.is_(None), row.lease_expire < now)
        waiting = select(external_requests).where(row.reply.is_(None), row.seen >= now - GONE_S, free)
        async with transaction(self._engine) as connection:
            oldest = waiting.order_by(row.create_time, row.id).limit(1).with_for_update(skip_locked=True)
            found = (await connection.execute(oldest)).first()
            if found is None:
                return None
            lease = {"lease_token": uuid.uuid4().hex, "lease_expire": now + lease_s, "worker": worker, "claims": found.claims + 1}
            await connection.execute(update(external_requests).where(row.id == found.id).values(**lease))
        return _request(found, lease)

    async def prolong(self, lease_token: str, lease_s: float) -> ExternalRequest:
        """Prolong a lease; FailedPreconditionError (LEASE_LOST) if it is lost."""
        await self.open()
        async with transaction(self._engine) as connection:
            found = await _held(connection, lease_token)
            if found.reply is not None:
                raise _lost("the prompt is answered")
            lease = {"lease_token": lease_token, "lease_expire": self._instant() + lease_s, "claims": found.claims}
            await connection.execute(update(external_requests).where(external_requests.c.id == found.id).values(**lease))
        return _request(found, lease)

    async def submit(self, lease_token: str, reply: ExternalReply) -> None:
        """Answer a prompt; FailedPreconditionError (LEASE_LOST) if the lease is lost, or if there is another answer."""
        await self.open()
        async with transaction(self._engine) as connection:
            found = await _held(connection, lease_token)
            named = {**asdict(reply), "model": reply.model or found.worker or "external"}
            if found.reply is not None and json.loads(found.reply) != named:
                raise _lost("the prompt is answered")
            changed = update(external_requests).where(external_requests.c.id == found.id)
            await connection.execute(changed.values(reply=json.dumps(named)))

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    def _instant(self) -> float:
        return self._now().timestamp()


async def _held(connection: AsyncConnection, lease_token: str) -> Row[Any]:
    mine = select(external_requests).where(external_requests.c.lease_token == lease_token).with_for_update()
    found = (await connection.execute(mine)).first()
    if found is None:
        raise _lost("it has run out and another has taken the prompt, or nobody waits for the answer any more")
    return found


def _request(found: Row[Any], lease: dict[str, Any]) -> ExternalRequest:
    body = json.loads(found.prompt)
    prompt = Prompt(tuple(Message(role, content) for role, content in body["prompt"]))
    return ExternalRequest(prompt, Sampling(**body["sampling"]), lease["lease_token"], lease["lease_expire"], lease["claims"])


def _lost(why: str) -> FailedPreconditionError:
    return FailedPreconditionError(f"the lease is lost: {why}; claim another prompt", reason="LEASE_LOST")
