"""The loop that drives searches: steps, waiting for peers, leases, watching."""
