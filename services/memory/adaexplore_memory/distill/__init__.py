"""Turns a failure into a lesson, by rules alone: no model, no execution.

Sentences are our own. From the failure only identifiers are taken, and only such as are Python identifiers that the failing source
really uses; the text of an exception is matched, bounded and never copied.
"""

from adaexplore_memory.distill.distiller import distill

__all__ = ["distill"]
