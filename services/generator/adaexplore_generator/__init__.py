"""The generator service of AdaExplore."""
