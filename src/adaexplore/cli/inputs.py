"""Files and flags of a command, as messages."""

from __future__ import annotations

import enum
from pathlib import Path

from adaexplore.cli.failures import CliError
from adaexplore.types.v1 import kernel_pb2, task_pb2

_MAX_SOURCE_BYTES = 1024 * 1024


class DeviceChoice(enum.StrEnum):
    """Values of `--device`."""

    CPU = "cpu"
    CUDA = "cuda"


class PrecisionChoice(enum.StrEnum):
    """Values of `--precision`."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"


class TrackChoice(enum.StrEnum):
    """Values of `--track`."""

    ANY = "any"
    NO_VENDOR_LIBRARY = "no_vendor_library"
    TRITON_ONLY = "triton_only"


class InitChoice(enum.StrEnum):
    """Values of `--init`."""

    BY_NAME = "by-name"
    SEEDED = "seeded"


class SanitizerChoice(enum.StrEnum):
    """Values of `--sanitize`."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


def read_source(path: Path) -> str:
    """Return the text of a Python file.

    Raises:
        CliError: It is missing, a folder, empty, too large or not UTF-8.

    """
    try:
        if path.stat().st_size > _MAX_SOURCE_BYTES:
            raise CliError(f"{path}: larger than 1 MiB; a task or kernel is one source file, load data by get_inputs()")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: not UTF-8 text (byte {error.start}); give a Python source file") from error
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}; give the path of a Python file") from error
    if not text.strip():
        raise CliError(f"{path}: the file is empty")
    return text


def read_task(path: Path, precision: PrecisionChoice, track: TrackChoice) -> task_pb2.Task:
    """Return the task in a file, held to a precision class and a track."""
    return task_pb2.Task(
        name=path.name[:200],
        source=read_source(path),
        precision=task_pb2.PrecisionClass.Value(f"PRECISION_CLASS_{precision.name}"),
        track=task_pb2.Track.Value(f"TRACK_{track.name}"),
    )


def device_spec(device: DeviceChoice, target: str, gpu: int | None) -> kernel_pb2.DeviceSpec:
    """Return the device that flags describe."""
    if gpu is not None and device is DeviceChoice.CPU:
        raise CliError("--gpu needs --device cuda")
    return kernel_pb2.DeviceSpec(kind=kernel_pb2.DeviceKind.Value(f"DEVICE_KIND_{device.name}"), target=target, gpu=gpu)
