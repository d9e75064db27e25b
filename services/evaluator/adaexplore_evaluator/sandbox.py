"""Starts runners in isolation: namespaces by bubblewrap where the host allows it, else limits and a scrubbed environment.

Nothing here imports torch, a task or a candidate.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from adaexplore_evaluator.folders import remove_folder
from adaexplore_evaluator.groups import TaskGroup, remove_stale_groups, usable_groups

_PACKAGE = Path(__file__).resolve().parent
_LAUNCHER = _PACKAGE / "launcher.py"
_MODULE = "adaexplore_evaluator.runner"
_PRIVATE_PACKAGES = "/opt/runner"
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/sys/devices/system/cpu")
_FOLDER_PREFIX = "adaexplore-runner-"
_MIB = 1024 * 1024


class SandboxError(Exception):
    """Runners cannot be isolated as demanded on this host; the message says what is missing."""


class SandboxLevel(Enum):
    """How far a runner is kept from the host."""

    PROCESS = "process"
    NAMESPACES = "namespaces"


class Role(Enum):
    """What a runner runs."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


@dataclass(frozen=True)
class Limits:
    """What one runner may use.

    Attributes:
        memory_bytes: Resident memory of all its processes together, a page that several share counted once, shared buffers included.
        file_bytes: Size of one file.
        scratch_bytes: Size of all its files together.
        processes: Processes at one time.
        tasks: Processes and threads at one time, a bound that the kernel keeps where the host lets us set it.
        open_files: Open files of one process.
        cpu_s: Processor seconds of one process.

    """

    memory_bytes: int = 6 * 1024 * _MIB
    file_bytes: int = 2 * 1024 * _MIB
    scratch_bytes: int = 4 * 1024 * _MIB
    processes: int = 64
    tasks: int = 512
    open_files: int = 1024
    cpu_s: int = 3600


@dataclass(frozen=True)
class GpuAccess:
    """A GPU that runners see, and none beside it.

    Attributes:
        index: Its number in the driver's order.
        uuid: Its name across restarts, as the driver tells it.

    """

    index: int
    uuid: str

    @property
    def nodes(self) -> list[str]:
        """Device files that its driver needs."""
        shared = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
        return [node for node in (f"/dev/nvidia{_device_minor(self)}", *shared) if Path(node).exists()]


@dataclass(frozen=True)
class Attended:
    """A tool under which a runner does one order and ends; it keeps every limit of the runner.

    Attributes:
        argv: Command line up to the runner's, from the folder of shared buffers as the runner sees it.
        root: Folder of the tool, which the runner sees besides.
        environment: Variables besides.

    """

    argv: Callable[[Path], list[str]]
    root: Path
    environment: dict[str, str]


@dataclass(frozen=True)
class Launch:
    """A runner that was started, and the referee's ends of what connects to it.

    Attributes:
        process: The launcher's process, which has become the sandbox; its output is a pipe.
        command_fd: Writes commands.
        reply_fd: Reads replies.
        folder: Private folder on the host.
        inside: The same folder as the runner sees it.
        marker: Text in the environment of every process of the runner that did not scrub it.
        group: Control group of all its processes; None where this host has none for us.

    """

    process: subprocess.Popen[bytes]
    command_fd: int
    reply_fd: int
    folder: Path
    inside: Path
    marker: str
    group: TaskGroup | None = None

    @property
    def shared(self) -> Path:
        """Folder of shared buffers on the host."""
        return self.folder / "shared"

    def place(self, name: str, text: str) -> str:
        """Write a source file for the runner to load and return its path as the runner sees it."""
        (self.folder / "source" / name).write_text(text, encoding="utf-8")
        return str(self.inside / "source" / name)


class Sandbox:
    """Starts runners at the best level that this host allows.

    Args:
        required: Lowest level accepted.
        limits: What one runner may use; of the disk no more than half of what is free now.
        root: Folder for private folders; shared memory where it is large enough, else the temporary folder.
        gpu: The GPU that runners may use; None for none.

    Raises:
        SandboxError: The level reached is below the one required.

    """

    def __init__(self, required: SandboxLevel, limits: Limits, root: Path | None = None, gpu: GpuAccess | None = None) -> None:
        self._gpu = gpu
        self._root = root or _roomy_root()
        # Half, so that what one runner leaves is enough for the referee to write its inputs and for the monitor to notice.
        room_bytes = max(shutil.disk_usage(self._root).free // 2, _MIB)
        self.limits = replace(limits, scratch_bytes=min(limits.scratch_bytes, room_bytes))
        self._bwrap = _working_bwrap()
        self._groups = usable_groups()
        self.level = SandboxLevel.NAMESPACES if self._bwrap else SandboxLevel.PROCESS
        if required is SandboxLevel.NAMESPACES and self.level is SandboxLevel.PROCESS:
            raise SandboxError(
                "bubblewrap cannot create namespaces on this host; install bwrap and allow user namespaces, "
                "or pass --require-sandbox process"
            )

    @property
    def bounds_tasks(self) -> bool:
        """Whether the kernel itself bounds a runner's processes and threads."""
        return self._groups is not None

    def start(self, role: Role, attended: Attended | None = None) -> Launch:
        """Start a runner, under a tool if one is given; it dies with the calling thread.

        Raises:
            SandboxError: The host has no room for the private folder or refuses the process.

        """
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-", dir=self._root))
            for name in ("shared", "source", "home", "tmp"):
                (folder / name).mkdir()
            return self._start(role, folder, attended)
        except OSError as error:
            raise SandboxError(f"cannot start a runner below {self._root}: {error.strerror or error}; free some space or memory") from error

    def _start(self, role: Role, folder: Path, attended: Attended | None) -> Launch:
        marker = f"adaexplore-{secrets.token_hex(12)}"
        command_in, command_out = os.pipe()
        reply_in, reply_out = os.pipe()
        isolated = self.level is SandboxLevel.NAMESPACES
        inside = Path("/private") if isolated else folder
        argv = _runner_argv(role, command_in, reply_out, inside / "shared", "cuda" if self._gpu else "cpu")
        argv += ["--processes", str(self.limits.processes)]
        environment = _environment(inside, marker, isolated) | (_gpu_environment(self._gpu) if self._gpu else {})
        if attended is not None:
            argv = [*attended.argv(inside / "shared"), *argv, "--order", str(inside / "source")]
            environment |= attended.environment
        group = self._groups.make(self.limits.tasks) if self._groups else None
        order = {
            "parent": os.getpid(),
            "group": str(group.entrance) if group else "",
            "new_session": not isolated,
            "limits": self._rlimits(),
            "argv": [*self._wrapper(folder, environment, attended), *argv] if isolated else argv,
            "env": {} if isolated else environment,
        }
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(command_in, reply_out),
                cwd=folder / "tmp",
                env={},
            )
        except OSError:
            os.close(command_out)
            os.close(reply_in)
            remove_folder(folder)
            if group:
                group.remove()
            raise
        finally:
            os.close(command_in)
            os.close(reply_out)
        return Launch(process, command_out, reply_in, folder, inside, marker, group)

    def _rlimits(self) -> dict[str, int]:
        return {"CORE": 0, "FSIZE": self.limits.file_bytes, "NOFILE": self.limits.open_files, "CPU": self.limits.cpu_s}

    def _wrapper(self, folder: Path, environment: dict[str, str], attended: Attended | None) -> list[str]:
        binds = ["--ro-bind", str(_PACKAGE / "runner"), f"{_PRIVATE_PACKAGES}/adaexplore_evaluator/runner"]
        binds += ["--ro-bind", str(_PACKAGE / "__init__.py"), f"{_PRIVATE_PACKAGES}/adaexplore_evaluator/__init__.py"]
        binds += ["--ro-bind", str(folder / "source"), "/private/source", "--bind", str(folder / "shared"), "/private/shared"]
        binds += [item for place in outermost([attended.root] if attended else []) for item in ("--ro-bind", place, place)]
        variables = [item for name, value in environment.items() for item in ("--setenv", name, value)]
        return [
            *_namespace_argv(self._bwrap),
            *(item for node in (self._gpu.nodes if self._gpu else []) for item in ("--dev-bind", node, node)),
            *_scratch(min(self.limits.scratch_bytes, 512 * _MIB)),
            *_system_binds(),
            *binds,
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--chdir",
            "/private/tmp",
            *variables,
        ]


def remove_stale(root: Path | None = None) -> None:
    """Remove private folders and control groups whose referee is dead, for example killed by the host."""
    remove_stale_groups()
    for folder in (root or _roomy_root()).glob(f"{_FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(_FOLDER_PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_folder(folder)


def _runner_argv(role: Role, command_fd: int, reply_fd: int, shared: Path, device: str) -> list[str]:
    return [
        *(sys.executable, "-B", "-s", "-P", "-m", _MODULE),
        *("--role", role.value, "--device", device, "--command-fd", str(command_fd), "--reply-fd", str(reply_fd), "--buffers", str(shared)),
    ]


def _environment(inside: Path, marker: str, isolated: bool) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(inside / "home"),
        "TMPDIR": str(inside / "tmp"),
        "XDG_CACHE_HOME": str(inside / "home" / ".cache"),
        "TRITON_CACHE_DIR": str(inside / "home" / "triton"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": _PRIVATE_PACKAGES if isolated else str(_PACKAGE.parent),
        "ADAEXPLORE_RUNNER": marker,
    }


def _device_minor(gpu: GpuAccess) -> int:
    """Number of the GPU's device file, which a container may not number as the driver's tool does."""
    for path in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        fields = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines() if ":" in line)
        if fields.get("GPU UUID", "").strip() == gpu.uuid and fields.get("Device Minor", "").strip().isdigit():
            return int(fields["Device Minor"])
    return gpu.index


def _gpu_environment(gpu: GpuAccess) -> dict[str, str]:
    """What CUDA and torch's compiler need besides: the one GPU, the driver's place, and a user's name for cache folders."""
    found = {"CUDA_VISIBLE_DEVICES": gpu.uuid, "USER": "runner", "TORCHINDUCTOR_COMPILE_THREADS": "1", "CUDA_MODULE_LOADING": "LAZY"}
    if os.environ.get("LD_LIBRARY_PATH"):
        found["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return found


def _namespace_argv(bwrap: str) -> list[str]:
    return [
        *(bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--hostname", "runner", "--proc", "/proc", "--dev", "/dev"),
    ]


def _scratch(size_bytes: int) -> list[str]:
    # Before all binds: the interpreter itself may live below /tmp, and a later mount would hide it.
    places = ("/tmp", "/private/home", "/private/tmp", "/dev/shm")  # noqa: S108 - places inside the sandbox
    return [item for place in places for item in ("--size", str(size_bytes), "--tmpfs", place)]


def _system_binds() -> list[str]:
    binds: list[str] = []
    for folder in map(Path, _SYSTEM_FOLDERS):
        if folder.is_symlink():
            binds += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            binds += ["--ro-bind", str(folder), str(folder)]
    for name in _SYSTEM_FILES:
        binds += ["--ro-bind-try", name, name]
    for place in _python_folders():
        binds += ["--ro-bind", place, place]
    for place in _own_packages():
        binds += ["--tmpfs", place]
    return binds


def _python_folders() -> list[str]:
    """Where the interpreter and its libraries live, outside the system's folders."""
    paths = sysconfig.get_paths()
    libraries = {Path(sys.prefix), Path(sys.base_prefix), Path(paths["purelib"]), Path(paths["platlib"])}
    return outermost({*libraries, interpreter_place(Path(sys.executable).resolve())})


def interpreter_place(program: Path) -> Path:
    """The installation that a program belongs to; the program alone where it lies in a folder of other things, as a home is."""
    installation = program.parent.parent
    return installation if (installation / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}").is_dir() else program


def outermost(places: Iterable[Path]) -> list[str]:
    """Places to bind: neither what the system's folders or another place hold already, nor the root, which would bind the whole host."""
    system = [Path(name) for name in _SYSTEM_FOLDERS]
    outside = sorted(place for place in set(places) if place != Path("/") and not any(place.is_relative_to(folder) for folder in system))
    return [str(place) for place in outside if not any(place != other and place.is_relative_to(other) for other in outside)]


def _own_packages() -> list[str]:
    """Folders of this distribution inside the interpreter's libraries: a runner needs none but its own, bound elsewhere."""
    libraries = Path(sysconfig.get_paths()["purelib"])
    return [str(place) for place in sorted(libraries.glob("adaexplore*")) if place.is_dir() and not place.name.endswith(".dist-info")]


def _working_bwrap() -> str:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return ""
    probe: Sequence[str] = [*_namespace_argv(bwrap), *_scratch(_MIB), *_system_binds(), sys.executable, "-I", "-S", "-c", ""]
    try:
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return bwrap if done.returncode == 0 else ""


def _roomy_root() -> Path:
    shared = Path("/dev/shm")  # noqa: S108 - private folders below it get unguessable names and mode 0700
    try:
        roomy = shutil.disk_usage(shared).free >= 2 * 1024 * _MIB and os.access(shared, os.W_OK)
    except OSError:
        roomy = False
    return shared if roomy else Path(tempfile.gettempdir())
