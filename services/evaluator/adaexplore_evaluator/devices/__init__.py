"""What the evaluator knows about devices; plain Python, no torch and no triton."""
