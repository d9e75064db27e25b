"""Versions of the adaexplore.generator API."""
