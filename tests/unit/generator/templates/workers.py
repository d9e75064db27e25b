"""Runs candidates outside of the test process: interpreted for numbers, cross-compiled for a GPU that is not here.

`python workers.py interpret|special|compile|conversions JOBS.json` prints one JSON list: for each job `{"ok": bool, "message": str}`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

# Sources must stay until the process ends, since Triton reads them when it compiles; then they are removed together.
FOLDER = tempfile.TemporaryDirectory()


def load(source: str, name: str, constants: dict) -> dict:
    """Executes a source from a file, which Triton needs to find its kernels."""
    lines = [
        next((f"{key} = {value}" for key, value in constants.items() if line.startswith(f"{key} = ")), line) for line in source.splitlines()
    ]
    path = Path(tempfile.mkdtemp(dir=FOLDER.name)) / f"{name}.py"
    path.write_text("\n".join(lines))
    namespace = {"__name__": name, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    if "libdevice" in namespace and os.environ["TRITON_INTERPRET"] == "1":
        namespace["libdevice"] = InterpretedLibdevice()
    return namespace


class InterpretedLibdevice:
    """Stands in for libdevice, which the interpreter lacks, by torch's functions of the same name."""

    def __getattr__(self, name: str):
        import torch
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        function = getattr(torch, {"nearbyint": "round", "rint": "round"}.get(name, name))

        def call(*args):
            arrays = [torch.as_tensor(arg.handle.data.copy() if isinstance(arg, tl.tensor) else arg) for arg in args]
            first = next(arg for arg in args if isinstance(arg, tl.tensor))
            data = function(*arrays).numpy().astype(first.handle.data.dtype)
            return tl.tensor(TensorHandle(data, first.handle.dtype), first.type)

        return call


def build(job: dict):
    import torch

    torch.manual_seed(job.get("seed", 0))
    task, candidate = load(job["task"], "task", job["constants"]), load(job["source"], "candidate", {})
    init = task["get_init_inputs"]()
    reference, model = task["Model"](*init), candidate["ModelNew"](*init)
    with torch.no_grad():
        for value in reference.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand_like(value) + 0.25)
    dtype = getattr(torch, job.get("dtype", "float32"))
    reference, model = reference.eval(), model.eval()
    model.load_state_dict(reference.state_dict())
    inputs = [value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in task["get_inputs"]()]
    return reference, model.to(dtype), inputs


def interpret(job: dict) -> str:
    import torch

    reference, model, inputs = build(job)
    if job.get("noncontiguous"):
        inputs = [value.t().contiguous().t() if value.dim() == 2 else value for value in inputs]
    kept = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad():
        found = model(*inputs)
        truth = reference.double()(*[value.double() if value.is_floating_point() else value for value in inputs])
    if any(not torch.equal(before, after) for before, after in zip(kept, inputs, strict=True) if isinstance(before, torch.Tensor)):
        return "an input was changed"
    found, truth = ([value] if isinstance(value, torch.Tensor) else list(value) for value in (found, truth))
    for mine, right in zip(found, truth, strict=True):
        if mine.shape != right.shape:
            return f"shape {tuple(mine.shape)} for {tuple(right.shape)}"
        if mine.dtype != inputs[0].dtype:
            return f"dtype {mine.dtype}"
        error = (mine.double() - right).abs().max() / right.abs().max().clamp_min(1e-6)
        if not error <= job.get("budget", 2e-5):
            return f"error {error}"
    return ""


def special(job: dict) -> str:
    """Compares infinities and NaN, wherever they sit in a row, with what torch makes of them."""
    import torch

    reference, model, (values,) = build(job)
    inf = float("inf")
    for rows, cols, value in ((1, ..., -inf), (..., slice(20), -inf), (1, 3, inf), (1, 3, float("nan")), (..., 3, -inf)):
        changed = values.clone()
        changed[rows, cols] = value
        with torch.no_grad():
            found, right = model(changed), reference(changed)
        if not torch.allclose(found, right, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{value} at {rows}, {cols}"
    return ""


def compiled(job: dict) -> dict[str, list[str]]:
    """TTGIR of every kernel that the model launches, by name, one for each set of constants."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    seen: set = set()
    found: dict[str, list[str]] = {}
    types = {
        torch.float32: "*fp32",
        torch.bfloat16: "*bf16",
        torch.float16: "*fp16",
        torch.int64: "*i64",
        torch.bool: "*i1",
        torch.int32: "*i32",
    }

    def compile_launch(self, *args, grid, warmup, **options):
        names = [param.name for param in self.params]
        given = dict(zip(names, args, strict=False)) | {key: options.pop(key) for key in list(options) if key in names}
        constants = {name: given[name] for name in names if self.params[names.index(name)].is_constexpr}
        signature = {
            name: "constexpr" if name in constants else types[value.dtype] if isinstance(value, torch.Tensor) else "i32"
            for name, value in given.items()
        }
        key = (self.fn.__name__, str(constants))
        if key not in seen:
            seen.add(key)
            aligned = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(names) if _aligned(given[name], name in constants)}
            source = triton.compiler.ASTSource(self, signature, constants, aligned)
            kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
            found.setdefault(self.fn.__name__, []).append(kernel.asm["ttgir"])

    JITFunction.run = compile_launch
    _, model, inputs = build(job)
    with torch.no_grad():
        model(*inputs)
    return found


def _aligned(value, constant: bool) -> bool:
    """Whether a launch would tell the compiler that an argument is a multiple of 16."""
    return not constant and (not isinstance(value, int) or value % 16 == 0)


def compile_only(job: dict) -> str:
    return "" if compiled(job) else "no kernel was launched"


def conversions(job: dict) -> str:
    """Names kernels that convert a tile of at least `tile` elements to another layout, in a loop or hoisted from one."""
    found = compiled(job)
    if job["kernel"] not in found:
        return f"{job['kernel']} was not launched"
    large = set()
    for name, texts in found.items():
        for line in "\n".join(texts).splitlines():
            if "ttg.convert_layout" in line:
                shape = re.findall(r"tensor<((?:\d+x)+)", line)[-1]
                if math.prod(int(extent) for extent in shape.split("x")[:-1]) >= job["tile"]:
                    large.add(f"{name} converts {shape[:-1]}")
    return "; ".join(sorted(large))


def main() -> None:
    os.environ["TRITON_INTERPRET"] = "0" if sys.argv[1] in {"compile", "conversions"} else "1"
    run = {"interpret": interpret, "special": special, "compile": compile_only, "conversions": conversions}[sys.argv[1]]
    results = []
    for job in json.loads(Path(sys.argv[2]).read_text()):
        try:
            message = run(job)
        except Exception as error:
            message = f"{type(error).__name__}: {error}" if not os.environ.get("TRACE") else traceback.format_exc()
        results.append({"ok": not message, "message": message})
    sys.__stdout__.write(json.dumps(results))


if __name__ == "__main__":
    main()
