"""The store of paid replies: no request is paid for twice, across restarts and replicas that share the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Insert, String, Table, Text, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.batches import Batches, Transaction
from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError
from adaexplore.runtime.migrations import prepare
from adaexplore_generator.domain import FinishReason, Reply, Usage
from adaexplore_generator.replies.tables import SCHEMA, attempts, replies, requests


def _inserts(table: Table) -> dict[str, postgresql.Insert | sqlite.Insert]:
    return {"sqlite": sqlite.insert(table), "postgresql": postgresql.insert(table)}


def _new_replies() -> dict[str, Insert]:
    """Return what stores a reply if its id is bound to its request; the row is locked, so that it stays bound until the reply is stored."""
    values = [bindparam("number", type_=BigInteger), bindparam("text", type_=Text), bindparam("at", type_=String)]
    bound = (requests.c.request_id == bindparam("request")) & (requests.c.digest == bindparam("bound"))
    row = select(requests.c.request_id, *values).where(bound).with_for_update()
    columns = [item.name for item in replies.columns]
    return {name: item.from_select(columns, row).on_conflict_do_nothing() for name, item in _inserts(replies).items()}


# All statements are made once: to make one takes longer than to run it.
_MINE = {table: table.c.request_id == bindparam("request") for table in (requests, replies, attempts)}
_NEW_REQUEST = {name: item.on_conflict_do_nothing() for name, item in _inserts(requests).items()}
_NEW_REPLY, _NEW_ATTEMPT = _new_replies(), insert(attempts)
_END_ATTEMPT = delete(attempts).where(attempts.c.id == bindparam("attempt"))
_USED = update(attempts).where(attempts.c.id == bindparam("attempt")).values(usage=bindparam("used"))
# The row is locked: a reply kept between two reads would come under the digest of another request.
_BOUND = select(requests.c.digest).where(_MINE[requests]).with_for_update()
_BIND = update(requests).where(_MINE[requests]).values(digest=bindparam("bound"))
_REPLIES = select(replies.c.reply).where(_MINE[replies]).order_by(replies.c.call)
_REPLY = select(replies.c.reply).where(_MINE[replies], replies.c.call == bindparam("number"))
_STRAYED = select(attempts.c.usage).where(_MINE[attempts])


@dataclass(frozen=True)
class Paid:
    """What was paid for a request: its replies in order, and the usage of all that brought none, at its worst case where it is unknown."""

    replies: tuple[Reply, ...] = ()
    strayed: Usage = field(default_factory=Usage)

    @property
    def usage(self) -> Usage:
        """Tokens and money of all of it."""
        return sum((reply.usage for reply in self.replies), self.strayed)

    @property
    def nothing(self) -> bool:
        """True if no call was ever begun that may have been paid for."""
        return not self.replies and not self.strayed.calls


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

    async def claim(self, request_id: str, digest: str, attempt: str = "", worst: Usage | None = None) -> Paid:
        """Bind an id to a request before anything is paid, and return what was paid for it already.

        An id whose request was never paid for may be bound anew, so that a refused request can be corrected.

        Args:
            request_id: The id.
            digest: SHA-256 of the request, in hexadecimal.
            attempt: Name of a call that is to be made if nothing was paid yet, and is then noted along with it, as `begin` does.
            worst: The most that this call can use.

        Raises:
            InvalidArgumentError: Replies were paid under this id for another request (REQUEST_INVALID).

        """
        await self.open()
        bound = {"request_id": request_id, "digest": digest, "create_time": self._instant()}
        noted = self._attempt(request_id, attempt, worst) if worst else None

        def write(transaction: Transaction) -> Paid:
            paid = _claim(transaction, bound)
            if noted and paid.nothing:
                transaction.execute(_NEW_ATTEMPT, noted)
            return paid

        return await self._batches.run(write)

    async def begin(self, request_id: str, attempt: str, worst: Usage) -> None:
        """Note a call before it is made, with the most that it can use; it stays so until `keep` or `forget`.

        Args:
            request_id: Id of a claimed request.
            attempt: Unique name of this call, up to 32 characters.
            worst: Usage in the unconfirmed fields.

        """
        noted = self._attempt(request_id, attempt, worst)
        await self._batches.run(lambda transaction: transaction.execute(_NEW_ATTEMPT, noted) and None)

    async def forget(self, attempt: str) -> None:
        """Strike a call for which nothing was generated."""
        await self._batches.run(lambda transaction: transaction.execute(_END_ATTEMPT, {"attempt": attempt}) and None)

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
        bound = {"request_id": request_id, "digest": digest, "create_time": self._instant()}
        values = {"request": request_id, "bound": digest, "number": call, "text": _encode(reply), "at": self._instant()}

        def write(transaction: Transaction) -> Reply:
            if not _stored(transaction, values, attempt):
                _claim(transaction, bound)
                if not _stored(transaction, values, attempt):
                    # If it was this call itself that was written before, its attempt is gone and nothing changes.
                    transaction.execute(_USED, {"attempt": attempt, "used": json.dumps(vars(reply.usage))})
                    return _decode(transaction.execute(_REPLY, {"request": request_id, "number": call}).rows[0][0])
            return reply

        return await self._batches.run(write)

    async def paid(self, request_id: str) -> Paid:
        """Return what was paid for an id so far, whatever request it names."""
        await self.open()
        return await self._batches.run(lambda transaction: _paid(transaction, request_id))

    async def close(self) -> None:
        """Write what is under way and close all connections."""
        await self._batches.close()
        await self._engine.dispose()

    def _attempt(self, request_id: str, attempt: str, worst: Usage) -> dict[str, str]:
        return {"id": attempt, "request_id": request_id, "usage": json.dumps(vars(worst)), "create_time": self._instant()}

    def _instant(self) -> str:
        return self._now().isoformat()


def _claim(transaction: Transaction, bound: dict[str, str]) -> Paid:
    """Bind an id to a request and return what was paid for it."""
    if transaction.execute(_NEW_REQUEST[transaction.dialect], bound).count:
        return Paid()
    request_id, digest = bound["request_id"], bound["digest"]
    former = transaction.execute(_BOUND, {"request": request_id}).rows[0][0]
    paid = _paid(transaction, request_id)
    if former != digest and paid.replies:
        raise _other_request(request_id)
    if former != digest:
        transaction.execute(_BIND, {"request": request_id, "bound": digest})
    return paid


def _stored(transaction: Transaction, values: dict[str, Any], attempt: str) -> bool:
    """Store a reply in place of its attempt if its id is bound to its request and there is no reply yet; return whether it was so."""
    if not transaction.execute(_NEW_REPLY[transaction.dialect], values).count:
        return False
    transaction.execute(_END_ATTEMPT, {"attempt": attempt})
    return True


def _paid(transaction: Transaction, request_id: str) -> Paid:
    mine = {"request": request_id}
    found = tuple(_decode(text) for (text,) in transaction.execute(_REPLIES, mine).rows)
    others = [Usage(**json.loads(text)) for (text,) in transaction.execute(_STRAYED, mine).rows]
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
