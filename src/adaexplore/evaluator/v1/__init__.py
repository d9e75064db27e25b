"""Generated messages of adaexplore.evaluator.v1."""
