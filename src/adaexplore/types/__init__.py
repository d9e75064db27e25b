"""Versions of the adaexplore.types API."""
