"""Versions of the adaexplore.memory API."""
