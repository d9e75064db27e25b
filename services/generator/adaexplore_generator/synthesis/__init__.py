"""Tasks composed without a model: random well-typed graphs over operators that were found by trial."""

from adaexplore_generator.synthesis.composer import ComposedTask, compose
from adaexplore_generator.synthesis.operators import Operator, load_operators

__all__ = ["ComposedTask", "Operator", "compose", "load_operators"]
