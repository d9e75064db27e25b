"""The memory service of AdaExplore."""
