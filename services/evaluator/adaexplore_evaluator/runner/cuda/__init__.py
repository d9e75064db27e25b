"""The runner on a real GPU: device memory that the referee can read, rounds that it times, and both roles."""
