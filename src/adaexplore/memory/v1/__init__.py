"""Generated messages of adaexplore.memory.v1."""
