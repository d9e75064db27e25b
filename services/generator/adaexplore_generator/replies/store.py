"""The store of paid replies: no request is paid for twice, across restarts and replicas that share the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Insert, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.batches import Batches
from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError
from adaexplore.runtime.migrations import prepare
from adaexplore_generator.domain import FinishReason, Reply, Usage
from adaexplore_generator.replies.tables import SCHEMA, attempts, replies, requests


def _unless_there(table: Table) -> dict[str, Insert]:
    return {name: dialect.insert(table).on_conflict_do_nothing() for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))}


# Statements of every call are made once: to make one takes as long as to run it.
_NEW_REQUEST, _NEW_REPLY, _NEW_ATTEMPT = _unless_there(requests), _unless_there(replies), insert(attempts)
_END_ATTEMPT = delete(attempts).where(attempts.c.id == bindparam("attempt"))
# The row is locked: a reply kept between two reads would come under the digest of another request.
_BOUND = select(requests.c.digest).where(requests.c.request_id == bindparam("request")).with_for_update()


@dataclass(frozen=True)
class Paid:
    """What was paid for a request: its replies in order, and the usage of all that brought none, at its worst case where it is unknown."""

    replies: tuple[Reply, ...] = ()
    strayed: Usage = field(default_factory=Usage)

    @property
    def usage(self) -> Usage:
        """Tokens and money of all of it."""
        return sum((reply.usage for reply in self.replies), self.strayed)


class ReplyStore:
    """Keeps each paid reply under the request's id and the number of the call within it, and each call that brought none.

    Args:
        engine: An engine over its database.
        now: Returns the present instant.

    Raises:
        UnavailableError: The store cannot be opened, read or written (STORE_UNAVAILABLE); every method raises it too.

    """

    def __init__(self, engine: AsyncEngine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now
        self._batches = Batches(engine)
        self._ready = False

    async def open(self) -> None:
        """Prepare the tables, once; `claim` does it too.

        Raises:
            SchemaOutdatedError: A PostgreSQL database has not been migrated; the message names the command.

        """
        if not self._ready:
            await prepare(self._engine, SCHEMA)
            self._ready = True

    async def claim(self, request_id: str, digest: str) -> Paid:
        """Bind an id to a request before anything is paid, and return what was paid for it already.

        An id whose request was never paid for may be bound anew, so that a refused request can be corrected.

        Args:
            request_id: The id.
            digest: SHA-256 of the request, in hexadecimal.

        Raises:
            InvalidArgumentError: Replies were paid under this id for another request (REQUEST_INVALID).

        """
        await self.open()
        return await self._batches.run(partial(_claim, request_id=request_id, digest=digest, instant=self._instant()))

    async def begin(self, request_id: str, attempt: str, worst: Usage) -> None:
        """Note a call before it is made, with the most that it can use; it stays so until `keep` or `forget`.

        Args:
            request_id: Id of a claimed request.
            attempt: Unique name of this call, up to 32 characters.
            worst: Usage in the unconfirmed fields.

        """
        values = {"id": attempt, "request_id": request_id, "usage": json.dumps(vars(worst)), "create_time": self._instant()}
        await self._batches.run(lambda connection: connection.execute(_NEW_ATTEMPT, values) and None)

    async def forget(self, attempt: str) -> None:
        """Strike a call for which nothing was generated."""
        await self._batches.run(lambda connection: connection.execute(_END_ATTEMPT, {"attempt": attempt}) and None)

    async def keep(self, request_id: str, digest: str, call: int, reply: Reply, attempt: str) -> Reply:
        """Store a paid reply in place of its attempt and return the one that is kept.

        That is the first, if another replica was faster with the same call; then the usage of this one stays with its attempt.
        An id that was bound to another request meanwhile, which is not paid for yet, is bound to this one again.

        Args:
            request_id: The id.
            digest: SHA-256 of the request that was paid for, in hexadecimal.
            call: Number of the call within the request, from 0.
            reply: What was paid for.
            attempt: Name of the call, as in `begin`.

        Raises:
            InvalidArgumentError: Replies were paid under this id for another request (REQUEST_INVALID); this one is not kept.

        """
        bind = partial(_claim, request_id=request_id, digest=digest, instant=self._instant(), known=True)
        values = {"request_id": request_id, "call": call, "reply": _encode(reply), "create_time": self._instant()}

        def write(connection: Connection) -> Reply:
            bind(connection)
            if connection.execute(_NEW_REPLY[connection.dialect.name], values).rowcount:
                connection.execute(_END_ATTEMPT, {"attempt": attempt})
                return reply
            # If it was this call itself that was written before, its attempt is gone and nothing changes.
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(usage=json.dumps(vars(reply.usage))))
            kept = select(replies.c.reply).where(replies.c.request_id == request_id, replies.c.call == call)
            return _decode(connection.execute(kept).scalar_one())

        return await self._batches.run(write)

    async def paid(self, request_id: str) -> Paid:
        """Return what was paid for an id so far, whatever request it names."""
        await self.open()
        return await self._batches.run(lambda connection: _paid(connection, request_id))

    async def close(self) -> None:
        """Write what is under way and close all connections."""
        await self._batches.close()
        await self._engine.dispose()

    def _instant(self) -> str:
        return self._now().isoformat()


def _claim(connection: Connection, *, request_id: str, digest: str, instant: str, known: bool = False) -> Paid:
    """Bind an id to a request and return what was paid for it; of an id that is `known` and bound so, nothing is read."""
    mine = requests.c.request_id == request_id
    values = {"request_id": request_id, "digest": digest, "create_time": instant}
    if not known and connection.execute(_NEW_REQUEST[connection.dialect.name], values).rowcount:
        return Paid()
    bound = connection.execute(_BOUND, {"request": request_id}).scalar_one()
    if known and bound == digest:
        return Paid()
    paid = _paid(connection, request_id)
    if bound != digest and paid.replies:
        raise _other_request(request_id)
    if bound != digest:
        connection.execute(update(requests).where(mine).values(digest=digest))
    return paid


def _paid(connection: Connection, request_id: str) -> Paid:
    kept = select(replies.c.reply).where(replies.c.request_id == request_id).order_by(replies.c.call)
    strayed = select(attempts.c.usage).where(attempts.c.request_id == request_id)
    found = tuple(_decode(text) for text in connection.execute(kept).scalars())
    others = [Usage(**json.loads(text)) for text in connection.execute(strayed).scalars()]
    return Paid(found, sum(others, Usage()))


def _encode(reply: Reply) -> str:
    return json.dumps({**vars(reply), "finish": reply.finish.value, "usage": vars(reply.usage)})


def _decode(text: str) -> Reply:
    data: dict[str, Any] = json.loads(text)
    usage = Usage(**data.pop("usage"))
    return Reply(**{**data, "usage": usage, "finish": FinishReason(data["finish"])})


def _other_request(request_id: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"request_id {request_id!r} names another request that was paid for; choose a new id for a new request",
        reason="REQUEST_INVALID",
        violations=[FieldViolation("request_id", "was used for another request")],
    )
