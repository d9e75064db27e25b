"""Domain objects as JSON and as rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from adaexplore_controller.domain import Node, Progress, Search, SearchSpec, StepState, TaskFacts, Wish
from adaexplore_controller.events import (
    Event,
    EventBody,
    NodeRecorded,
    SkillLearnt,
    SkillRespected,
    StateChanged,
    StepProgress,
    StepStarted,
)

SPEC = TypeAdapter(SearchSpec)
FACTS = TypeAdapter(TaskFacts)
PROGRESS = TypeAdapter(Progress)
NODE = TypeAdapter(Node)
STEP = TypeAdapter(StepState)
_EVENTS: Mapping[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (StateChanged, StepStarted, StepProgress, NodeRecorded, SkillLearnt, SkillRespected)
}


def text(adapter: TypeAdapter[Any], value: object) -> str:
    """Return a domain object as JSON."""
    return adapter.dump_json(value).decode()


def instant(seconds: float) -> datetime:
    """Return the UTC instant for seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def search_from(row: Row[Any]) -> Search:
    """Return the search that a row of `searches` holds."""
    return Search(
        id=row.id,
        number=row.number,
        spec=SPEC.validate_json(row.spec),
        progress=PROGRESS.validate_json(row.progress),
        facts=FACTS.validate_json(row.facts) if row.facts else None,
        create_time=instant(row.create_time),
        last_sequence=row.last_sequence,
        version=row.version,
        wish=Wish(row.wish),
        spent_s=row.spent_s,
    )


def search_values(search: Search) -> dict[str, Any]:
    """Return the columns of `searches` that change while a search runs; its facts are written once, apart."""
    return {
        "state": search.progress.state.value,
        "progress": text(PROGRESS, search.progress),
        "wish": search.wish.value,
        "spent_s": search.spent_s,
        "last_sequence": search.last_sequence,
        "version": search.version,
    }


def event_values(search_id: str, event: Event) -> dict[str, Any]:
    """Return the row of `events` for an event."""
    kind = type(event.body).__name__
    return {
        "search_id": search_id,
        "sequence": event.sequence,
        "time": event.time.timestamp(),
        "kind": kind,
        "body": text(_EVENTS[kind], event.body),
    }


def event_from(row: Row[Any]) -> Event:
    """Return the event that a row of `events` holds."""
    body: EventBody = _EVENTS[row.kind].validate_json(row.body)
    return Event(row.sequence, instant(row.time), body)
