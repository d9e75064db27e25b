"""Versions of the adaexplore.controller API."""
