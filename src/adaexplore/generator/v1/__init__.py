"""Generated messages of adaexplore.generator.v1."""
