"""What runs inside the sandbox: one process per task (role `reference`) or per candidate (role `candidate`).

It imports nothing else of the service. Its answers are data that the referee checks, never verdicts.
"""
