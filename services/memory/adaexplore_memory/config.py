"""Settings of the memory service."""

from __future__ import annotations

from adaexplore.runtime.store_config import StoreConfig

ENVIRONMENT_PREFIX = "ADAEXPLORE_MEMORY_"


class MemoryConfig(StoreConfig):
    """Settings of the memory service; without a database URL its store is `memory.sqlite3` in the state folder."""
