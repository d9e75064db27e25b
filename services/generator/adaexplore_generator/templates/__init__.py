"""The `templates` provider: writes Triton kernels from a task's operator graph, without a model.

It imports neither torch nor triton: kernels are text here, and whether they compile is the evaluator's question.
"""

from adaexplore_generator.templates.proposing import propose
from adaexplore_generator.templates.request import TemplateProposal, TemplateRequest

__all__ = ["TemplateProposal", "TemplateRequest", "propose"]
