"""Reading what happened: nodes and events of a search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select

from adaexplore.runtime.errors import NotFoundError
from adaexplore_controller.domain import Node
from adaexplore_controller.events import Event
from adaexplore_controller.store import codec, tables
from adaexplore_controller.store.database import Database
from adaexplore_controller.tree import ROOT_STEP


class History:
    """Nodes and events of searches; every method raises UnavailableError (STORE_UNAVAILABLE) if the database cannot be used.

    Args:
        database: Where they are, opened.

    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def nodes(self, search_id: str, after_step: int = ROOT_STEP, limit: int | None = None) -> tuple[Node, ...]:
        """Return the nodes of a search but its root, in order of creation, from after a step on."""
        query = select(tables.nodes).where((tables.nodes.c.search_id == search_id) & (tables.nodes.c.step > after_step))
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.order_by(tables.nodes.c.step).limit(limit))).all()
        return tuple(_node_from(row) for row in rows)

    async def node(self, search_id: str, step: int) -> Node:
        """Return one node; NotFoundError (NODE_NOT_FOUND) if there is none, or if it is the root, which holds nothing."""
        query = select(tables.nodes).where((tables.nodes.c.search_id == search_id) & (tables.nodes.c.step == step))
        async with self._database.transaction() as connection:
            row = (await connection.execute(query)).first()
        if row is None or step == ROOT_STEP:
            name = f"searches/{search_id}/nodes/{step}"
            raise NotFoundError(f"there is no node `{name}`; ListNodes names all", reason="NODE_NOT_FOUND", resource=name)
        return _node_from(row)

    async def events(self, search_id: str, after_sequence: int, limit: int) -> tuple[Event, ...]:
        """Return events in order, from after a sequence number on."""
        query = select(tables.events).where((tables.events.c.search_id == search_id) & (tables.events.c.sequence > after_sequence))
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.order_by(tables.events.c.sequence).limit(limit))).all()
        return tuple(codec.event_from(row) for row in rows)


def _node_from(row: Row[Any]) -> Node:
    return replace(codec.NODE.validate_json(row.body), visits=row.visits, reward_sum=row.reward_sum)
