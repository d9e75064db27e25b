import os
from pathlib import Path

from torch import nn

# The test puts the repository and the server's port here.
REPOSITORY, PORT = "", 0


def found():
    for place in (REPOSITORY, "/root/.ssh", "/home", "/var"):
        for folder, _, files in os.walk(place):
            if files and ".venv" not in folder:
                yield f"{folder}/{files[0]}"
    if Path("/etc/passwd").exists():
        yield "/etc/passwd"
    for folder, _, files in os.walk("/private"):
        yield from (f"{folder}/{name}" for name in files if "task" in name)
    if any("KEY" in name or "TOKEN" in name for name in os.environ):
        yield "a secret in the environment"
    # Where the server listens, its port is listed.
    if f":{PORT:04X} " in Path("/proc/net/tcp").read_text():
        yield "the network"
    try:
        Path("/usr/written").write_text("")
        yield "a writable system"
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        seen = list(found())
        if seen:
            raise RuntimeError(f"within reach: {seen[:3]}")
        return x * 2.0 + 1.0
