"""The state of searches in SQL: trees, events, steps in flight, leases and the ledger of their money."""

from adaexplore_controller.store.database import Database
from adaexplore_controller.store.history import History
from adaexplore_controller.store.leases import Lease, LeaseHolder
from adaexplore_controller.store.ledger import Caps, Grant, Ledger, Purse
from adaexplore_controller.store.searches import Change, LeaseLostError, SearchStore
from adaexplore_controller.store.tables import SCHEMA

__all__ = [
    "SCHEMA",
    "Caps",
    "Change",
    "Database",
    "Grant",
    "History",
    "Lease",
    "LeaseHolder",
    "LeaseLostError",
    "Ledger",
    "Purse",
    "SearchStore",
]
