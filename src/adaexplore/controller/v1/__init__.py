"""Generated messages of adaexplore.controller.v1."""
