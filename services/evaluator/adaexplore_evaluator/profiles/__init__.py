"""What a call does with its device, from the JSON of an Evaluation: plain arithmetic, the same on every device; no torch and no Triton."""

from adaexplore_evaluator.profiles.calls import profiled
from adaexplore_evaluator.profiles.work import with_work

__all__ = ["profiled", "with_work"]
