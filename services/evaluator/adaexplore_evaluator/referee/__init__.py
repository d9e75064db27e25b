"""The trusted side: entropy, comparison and verdict. It imports neither a task nor a candidate."""
