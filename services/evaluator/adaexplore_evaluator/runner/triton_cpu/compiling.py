"""Compiles kernels for a target and reads what they occupy."""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import triton
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction, create_function_from_signature

from .model import CompiledSnippet, KernelCompileError, LaunchRefused, Resources
from .rewriting import definition_line, source_file
from .targets import Target, find_target

_MAX_THREADS = 1024
_ARTIFACT_KINDS = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")


@dataclass(frozen=True)
class Specialisation:
    """What one call of a kernel compiles to: types, constants, alignment hints and options."""

    function: JITFunction
    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attributes: dict[tuple[int, ...], Any]
    options: Any
    arguments: dict[str, Any]

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls that share a compiled kernel."""
        constants = {path: getattr(value, "cache_key", value) for path, value in self.constants.items()}
        return (self.function.cache_key, str(self.signature), repr(constants), repr(self.attributes), repr(self.options))

    @property
    def constexprs(self) -> dict[str, Any]:
        """Values of the kernel's constexpr parameters by name."""
        return {parameter.name: self.arguments[parameter.name] for parameter in self.function.params if parameter.is_constexpr}


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel, Triton's own object in `kernel`."""

    kernel: Any
    resources: Resources

    @property
    def uses_atomics(self) -> bool:
        """Whether programs of this kernel may order themselves by atomics."""
        return "tt.atomic" in self.kernel.asm["ttir"]

    @property
    def loops_freely(self) -> bool:
        """Whether a program may run a loop for ever."""
        return "scf.while" in self.kernel.asm["ttir"]

    @property
    def may_wait(self) -> bool:
        """Whether a program may wait for another one, so that order matters."""
        return self.uses_atomics and self.loops_freely


class CompileCache:
    """Compiled kernels of this process, by function, signature, constants, options and target; give one to every session.

    Refusals are remembered too: they are raised again without compiling.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Compiled | Exception] = {}

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._known

    def find(self, key: tuple[Any, ...]) -> Compiled | None:
        """What is known about a key; raises the remembered refusal."""
        known = self._known.get(key)
        if isinstance(known, Exception):
            raise known.with_traceback(None)
        return known

    def remember(self, key: tuple[Any, ...], outcome: Compiled | Exception) -> None:
        """Keep an outcome."""
        self._known[key] = outcome


class Compiler:
    """Binds calls and compiles them for one target."""

    def __init__(self, target: Target, cache: CompileCache) -> None:
        self.target = target
        self.backend = make_backend(target.gpu_target)
        self._cache = cache
        self._binders: dict[JITFunction, Any] = {}

    def specialise(self, function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Specialisation:
        """Bind a call as Triton does: defaults, constexprs, options, alignment. TypeError and KeyError are the caller's faults."""
        binder = self._binders.get(function)
        if binder is None:
            binder = self._binders[function] = create_function_from_signature(function.signature, function.params, self.backend)
        kwargs.setdefault("debug", bool(function.debug))
        bound, specialization, options = binder(*args, **kwargs)
        options, signature, constants, attributes = function._pack_args(self.backend, kwargs, bound, specialization, options)
        return Specialisation(function, signature, constants, attributes, options, bound)

    def known(self, specialisation: Specialisation) -> bool:
        """Whether compiling would be instant."""
        return (*specialisation.key, self.target.name) in self._cache

    def compile(self, specialisation: Specialisation) -> Compiled:
        """Compile; raises KernelCompileError or LaunchRefused."""
        key = (*specialisation.key, self.target.name)
        found = self._cache.find(key)
        if found is not None:
            return found
        try:
            compiled = self._compile(specialisation)
        except (KernelCompileError, LaunchRefused) as refusal:
            self._cache.remember(key, refusal)
            raise
        self._cache.remember(key, compiled)
        return compiled

    def _compile(self, specialisation: Specialisation) -> Compiled:
        function = specialisation.function
        source = ASTSource(function, specialisation.signature, specialisation.constants, specialisation.attributes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kernel = triton.compile(source, target=self.target.gpu_target, options=dict(specialisation.options.__dict__))
        except (MemoryError, OSError):
            raise
        except Exception as error:
            raise _compile_error(function, error) from error
        self._refuse_beyond_limits(function, kernel.metadata)
        return Compiled(kernel, read_resources(kernel, self.target))

    def _refuse_beyond_limits(self, function: JITFunction, metadata: Any) -> None:
        name, line = function.fn.__name__, definition_line(function)
        shared, limit = int(metadata.shared), self.target.shared_limit_bytes
        if shared > limit:
            raise LaunchRefused(name, line, "shared memory", shared, limit, "bytes")
        threads = int(metadata.num_warps) * self.target.warp_size
        if threads > _MAX_THREADS:
            raise LaunchRefused(name, line, "threads", threads, _MAX_THREADS, "threads")
        tensor_memory = int(getattr(metadata, "tmem_size", 0) or 0)
        if tensor_memory > 512:
            raise LaunchRefused(name, line, "tensor memory", tensor_memory, 512, "columns")


def _causes(error: BaseException) -> list[BaseException]:
    """From the error to the innermost one that speaks of the kernel; what lies below an assembler's error does not."""
    chain = [error]
    while isinstance(chain[-1], CompilationError):
        following = chain[-1].__cause__ or chain[-1].__context__
        if following is None or following in chain:
            break
        chain.append(following)
    return chain


def _jit_functions(function: JITFunction) -> list[JITFunction]:
    """The kernel and the device functions of its own file that it can reach."""
    own_file, found, waiting = source_file(function), [function], [function]
    while waiting:
        for value in waiting.pop().get_capture_scope().values():
            if isinstance(value, JITFunction) and value not in found and source_file(value) == own_file:
                found.append(value)
                waiting.append(value)
    return found


def _compile_error(function: JITFunction, error: Exception) -> KernelCompileError:
    chain = _causes(error)
    line, excerpt = definition_line(function), ""
    functions = {candidate.src: candidate for candidate in _jit_functions(function)}
    for cause in chain:
        number = getattr(getattr(cause, "node", None), "lineno", None)
        owner = functions.get(getattr(cause, "src", None) or "")
        if isinstance(cause, CompilationError) and owner is not None and number is not None:
            line = definition_line(owner) + number - 1
            excerpt = owner.src.splitlines()[number - 1].strip()
    innermost = chain[-1]
    text = getattr(innermost, "error_message", None) or str(innermost) or str(error)
    return KernelCompileError(function.fn.__name__, line, type(innermost).__name__, text.strip(), excerpt)


def read_resources(kernel: Any, target: Target) -> Resources:
    """Registers, spills and shared memory of a compiled kernel, from the assembler's own record."""
    metadata = kernel.metadata
    if target.backend == "hip":
        registers, spill_bytes = _amd_resources(kernel.asm["amdgcn"])
    else:
        registers, spill_bytes = _nvidia_resources(kernel.asm["cubin"])
    return Resources(registers, spill_bytes, int(metadata.shared), int(metadata.num_warps), int(metadata.num_ctas))


def _nvidia_resources(cubin: bytes) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        listing = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = {name: [int(value) for value in re.findall(rf"\b{name}:(\d+)", listing)] for name in ("REG", "STACK", "LOCAL")}
    return max(found["REG"], default=0), max(*found["STACK"], *found["LOCAL"], 0)


def _amd_resources(assembly: str) -> tuple[int, int]:
    def figure(name: str) -> int:
        return max((int(value) for value in re.findall(rf"\.{name}:\s*(\d+)", assembly)), default=0)

    # On targets with accumulation registers `vgpr_count` includes them.
    return figure("vgpr_count"), figure("private_segment_fixed_size")


def _artifacts(kernel: Any) -> dict[str, bytes]:
    texts = {kind: kernel.asm[kind] for kind in _ARTIFACT_KINDS if kind in kernel.asm}
    return {kind: content if isinstance(content, bytes) else str(content).encode() for kind, content in texts.items()}


def _load_function(source: str, function_name: str, folder: Path) -> JITFunction:
    # @triton.jit reads its source from a file.
    path = folder / "snippet.py"
    path.write_text(source)
    scope: dict[str, Any] = {"__name__": "snippet", "__file__": str(path)}
    try:
        exec(compile(source, str(path), "exec"), scope)  # noqa: S102 - the candidate's own code, in its sandbox
    except Exception as error:
        line = getattr(error, "lineno", None) or _last_line(error, str(path))
        raise KernelCompileError(function_name, line, type(error).__name__, str(error)) from error
    function = scope.get(function_name)
    while function is not None and not isinstance(function, JITFunction):
        function = getattr(function, "fn", None)
    if function is None:
        raise KernelCompileError(function_name, 0, "NameError", f"the source defines no @triton.jit function {function_name!r}")
    return function


def _last_line(error: BaseException, filename: str) -> int:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == filename else line
        trace = trace.tb_next
    return line


def compile_snippet(
    source: str,
    function_name: str,
    signature: dict[str, str],
    constexprs: dict[str, Any],
    num_warps: int,
    num_stages: int,
    target: str,
) -> CompiledSnippet:
    """Compile one kernel of `source` for `target` without a launch.

    `signature` maps parameter names to Triton types ("*fp32", "i32"); `constexprs` holds the values of constexpr parameters. Decorators
    (autotune, heuristics) around the function are ignored. Raises KernelCompileError or LaunchRefused; ValueError for a wrong signature.
    """
    compiler = Compiler(find_target(target), CompileCache())
    with tempfile.TemporaryDirectory() as folder:
        function = _load_function(source, function_name, Path(folder))
        unknown = set(signature) | set(constexprs)
        missing = [name for name in function.arg_names if name not in unknown]
        if missing or (extra := unknown - set(function.arg_names)):
            raise ValueError(f"signature of {function_name}: missing {missing}" if missing else f"unknown parameters {sorted(extra)}")
        types = {name: "constexpr" if name in constexprs else signature[name] for name in function.arg_names}
        constants: dict[tuple[int, ...], Any] = {(function.arg_names.index(name),): value for name, value in constexprs.items()}
        options = compiler.backend.parse_options({"num_warps": num_warps, "num_stages": num_stages})
        compiled = compiler.compile(Specialisation(function, types, constants, {}, options, {}))
    return CompiledSnippet(compiled.resources, _artifacts(compiled.kernel))
