"""Versions of the adaexplore.evaluator API."""
