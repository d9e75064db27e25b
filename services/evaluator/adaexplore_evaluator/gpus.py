"""GPUs of this host, as the driver's own tool lists them; nothing here makes a CUDA context."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

_QUERY = "index,uuid,name,memory.total,compute_cap"
_MIB = 1024 * 1024


class GpuChoiceError(ValueError):
    """A GPU that was asked for is not there; the message says which are."""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        index: Its number in the driver's order.
        uuid: Its name across restarts.
        name: Its name for people.
        memory_bytes: Its memory.
        target: Compile target, for example `sm_90`.

    """

    index: int
    uuid: str
    name: str
    memory_bytes: int
    target: str


def list_gpus() -> tuple[Gpu, ...]:
    """All GPUs, in the driver's order; none if there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        done = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(gpu for line in done.stdout.splitlines() if (gpu := _parsed(line)) is not None) if done.returncode == 0 else ()


def chosen(choice: str, found: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that a setting names: `auto` is all, `none` is none, else numbers separated by commas. GpuChoiceError as it says."""
    if choice == "auto":
        return found
    if choice == "none":
        return ()
    by_index = {str(gpu.index): gpu for gpu in found}
    wanted = [part.strip() for part in choice.split(",")]
    missing = [part for part in wanted if part not in by_index]
    if missing:
        raise GpuChoiceError(f"no GPU {', '.join(missing)}; this host has {', '.join(by_index) or 'none'}")
    return tuple(by_index[part] for part in dict.fromkeys(wanted))


def _parsed(line: str) -> Gpu | None:
    parts = [part.strip() for part in line.split(",")]
    try:
        index, uuid, name, mebibytes, capability = parts
        return Gpu(int(index), uuid, name, int(mebibytes) * _MIB, f"sm_{capability.replace('.', '')}")
    except ValueError:
        return None
