"""Laboratory: questions about policies that need no evaluator."""
