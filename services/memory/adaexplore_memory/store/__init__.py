"""Where skills, failures and outcomes are kept."""

from adaexplore_memory.store.database import Remembered, SkillFilter, Store, Transaction, open_store
from adaexplore_memory.store.tables import SCHEMA

__all__ = ["SCHEMA", "Remembered", "SkillFilter", "Store", "Transaction", "open_store"]
