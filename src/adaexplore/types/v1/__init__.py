"""Generated messages of adaexplore.types.v1."""
