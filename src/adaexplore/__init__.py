"""AdaExplore: turn a PyTorch program into a fast, proven-correct GPU kernel."""
