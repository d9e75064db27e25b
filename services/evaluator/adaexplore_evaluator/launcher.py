"""Becomes another program under limits; run as a file by a bare interpreter, never imported by the service.

It takes one JSON argument: `{"parent": pid, "new_session": bool, "limits": {NAME: value}, "group": path, "argv": [...], "env": {...}}`.
Limits are names of `resource.RLIMIT_*` without the prefix; the group is the entrance of a control group, empty for none. The program dies
with the thread that started the launcher.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CPU_SPARE_S = 10


def main() -> None:
    """Apply the limits of the JSON argument and replace this process by its `argv`."""
    order = json.loads(sys.argv[1])
    if order["new_session"]:
        os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if order["group"]:
        entrance = os.open(order["group"], os.O_WRONLY)
        os.write(entrance, b"0")
        os.close(entrance)
    for name, value in order["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # At the soft limit of processor time comes SIGXCPU, at the hard one SIGKILL, which would look like a kill by the host.
        spare = _CPU_SPARE_S if name == "CPU" and hard == resource.RLIM_INFINITY else 0
        resource.setrlimit(kind, (allowed, allowed + spare))
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != order["parent"]:
        sys.exit(1)  # the parent died before the signal was asked for
    os.execve(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - becoming that program is the purpose


if __name__ == "__main__":
    main()
