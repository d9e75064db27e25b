"""What every service shares: config, deadlines, errors, interceptors, logging, server."""
