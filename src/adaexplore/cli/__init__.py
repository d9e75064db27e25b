"""The adaexplore command line."""
