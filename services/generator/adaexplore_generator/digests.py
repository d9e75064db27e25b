"""Digests of requests and prompts: the same value always has the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

_NOT_CONTENT = frozenset({"request_id", "max_cost_micro_usd"})


def request_digest(request: Any) -> str:
    """Return a SHA-256 over all that a reply depends on; neither the request's id nor its limit is part of it."""
    return sha256_of([type(request).__name__, {name: value for name, value in _fields(request).items() if name not in _NOT_CONTENT}])


def sha256_of(value: Any) -> str:
    """Return the SHA-256 over a value's canonical JSON, lower-case hex."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()


def _fields(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in _names(value.__class__)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [type(value).__name__, _fields(value)]
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)
