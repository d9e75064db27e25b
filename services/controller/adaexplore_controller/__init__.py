"""The controller service of AdaExplore."""
