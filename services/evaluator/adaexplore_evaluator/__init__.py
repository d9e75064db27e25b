"""The evaluator service of AdaExplore."""
