"""Write the composer's operator list: what the installed torch computes on float32 tensors, found by trying every public name."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import itertools
import json
import multiprocessing
import os
import resource
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import torch

TARGET = Path(__file__).resolve().parents[1] / "services/generator/adaexplore_generator/synthesis/operators.json"
PROBES = {
    2: ((6, 12), (7, 20), (9, 32), (16, 48)),
    3: ((2, 12, 17), (3, 20, 24), (4, 32, 29), (6, 16, 38)),
    4: ((2, 12, 17, 20), (3, 20, 24, 15), (4, 32, 19, 30), (5, 16, 22, 13)),
}
# Values for what a constructor asks for, by the parameter's name; {c} is the extent of dimension 1, {l} of the last one.
ARGUMENTS = {
    "in_features": "{l}", "out_features": "24", "in_channels": "{c}", "out_channels": "16", "kernel_size": "3", "num_features": "{c}",
    "num_channels": "{c}", "num_groups": "4", "normalized_shape": "{l}", "output_size": "8", "dim": "1", "padding": "1", "size": "5",
    "scale_factor": "2", "groups": "4", "upscale_factor": "2", "threshold": "0.1", "value": "0.5", "lambd": "0.4", "norm_type": "2",
    "num_parameters": "{c}",
}  # fmt: skip
# A domain is tried only if those before it fail: an operator takes its argument as it is wherever it can.
DOMAINS = ("{x}", "torch.tanh({x})", "torch.sigmoid({x})", "(torch.sigmoid({x}) + 1.0)")
FORMS = ("{f}({a})", "{f}({a}, {y})", "{f}({a}, dim=-1)", "{f}({a}, 1)", "{f}({a}, (8,) * {spatial})", "{f}({a}, 3)", "{f}({a}, -0.5, 0.5)")
SKIPPED_WORDS = (
    "dropout",
    "quant",
    "rand",
    "empty",
    "bernoulli",
    "rrelu",
    "save",
    "load",
    "compile",
    "vmap",
    "cond",
    "loss",
    "kron",
    "set_",
    "manual",
    "seed",
    "from_",
    "backend",
    "fork",
    "wait",
    "lazy",
    "sync",
)
# Of processor time, so that the list is the same on a busy machine; the wall's clock ends only what waits for something.
_SECONDS_PER_TRIAL = 2
_SECONDS_PER_OPERATOR = 20
_WALL_SECONDS_PER_OPERATOR = 120
_MEMORY_BYTES = 4 << 30


def _module(kind: type, shape: tuple[int, ...]) -> str | None:
    required = [
        item.name
        for item in inspect.signature(kind).parameters.values()
        if (item.default is item.empty or (item.name, item.default) == ("dim", None)) and item.kind is item.POSITIONAL_OR_KEYWORD
    ]
    if any(name not in ARGUMENTS for name in required):
        return None
    return ", ".join(f"{name}={ARGUMENTS[name]}" for name in required)


def names() -> list[tuple[str, Any]]:
    """Return every public layer and function with its qualified name, each object once."""
    found: dict[int, tuple[str, Any]] = {}
    for prefix, space in (("torch.nn", torch.nn), ("torch.nn.functional", torch.nn.functional), ("torch", torch)):
        for name in sorted(dir(space)):
            item = getattr(space, name)
            skipped = name.startswith("_") or name.endswith("_") or any(word in name.lower() for word in SKIPPED_WORDS)
            layer = inspect.isclass(item) and issubclass(item, torch.nn.Module)
            function = not inspect.isclass(item) and callable(item) and not isinstance(item, torch.dtype)
            if not skipped and (layer if prefix == "torch.nn" else function):
                found.setdefault(id(item), (f"{prefix}.{name}", item))
    return list(found.values())


def _dimension(inputs: list[tuple[int, ...]], outputs: list[int], position: int) -> list[int] | None:
    sources = sorted(range(len(inputs[0])), key=lambda index: index != position)
    for source, (mul, div, add) in itertools.product(sources, ((1, 1, k) for k in (0, 1, 2, -1, -2, -3, -4))):
        if all(shape[source] * mul // div + add == out for shape, out in zip(inputs, outputs, strict=True)):
            return [source, mul, div, add]
    for source, mul, div, add in itertools.product(sources, (1, 2, 4), (1, 2, 3, 4), (0, 1, -1)):
        if all(shape[source] * mul // div + add == out for shape, out in zip(inputs, outputs, strict=True)):
            return [source, mul, div, add]
    return [-1, 0, 1, outputs[0]] if len(set(outputs)) == 1 else None


def _run(layer: str, call: str, domain: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    torch.manual_seed(len(shape))
    x, y = torch.randn(shape), torch.randn(shape)
    space: dict[str, Any] = {"torch": torch, "y": y}
    if layer:
        space["layer"] = eval(layer.format(c=shape[1], l=shape[-1]), space)  # noqa: S307
    filled = call.replace("{a}", domain).replace("{x}", "x").replace("{y}", "y").replace("{m}", "layer")

    def compute(value: torch.Tensor, code: str = filled, **others: torch.Tensor) -> torch.Tensor:
        return eval(code, {**space, "x": value, **others})  # type: ignore[no-any-return] # noqa: S307

    def raw(value: torch.Tensor) -> torch.Tensor:
        return compute(value, call.replace("{a}", "x").replace("{y}", "y").replace("{m}", "layer"))

    kept, state = x.clone(), torch.get_rng_state()
    first = compute(x)
    if not isinstance(first, torch.Tensor) or first.dtype != torch.float32 or first.ndim < 2 or not first.numel():
        raise ValueError("it is not one float32 tensor of at least two dimensions")
    if not torch.equal(first, compute(x)) or not torch.equal(state, torch.get_rng_state()) or not torch.equal(x, kept):
        raise ValueError("it is random or changes its input")
    argument = compute(x, domain.replace("{x}", "x"))
    if first.shape == argument.shape and torch.allclose(first, argument):
        raise ValueError("it changes next to nothing")
    _refuse_wild(compute, x, first)
    _refuse_jumps(raw, compute(3 * x, domain.replace("{x}", "x")))
    return tuple(first.shape)


def _refuse_jumps(raw: Callable[[torch.Tensor], torch.Tensor], argument: torch.Tensor) -> None:
    spread = torch.linspace(argument.min(), argument.max(), argument.numel()).reshape(argument.shape)
    steps = (spread * 20).round() / 20  # where functions that round or compare have their jumps
    if (raw(steps + 1e-5) - raw(steps - 1e-5)).nan_to_num(0).abs().max() > 0.02:
        raise ValueError("it jumps")


def _refuse_wild(compute: Callable[..., torch.Tensor], x: torch.Tensor, first: torch.Tensor) -> None:
    zero = torch.zeros_like(x)
    compute(x.clone().requires_grad_())  # what a layer returns needs a gradient, and some functions warn of that
    large, near, flat = compute(30 * x), compute(x + 1e-5), compute(zero, y=zero)
    if flat.shape != first.shape or compute(x.round()).shape != first.shape:
        raise ValueError("its shape depends on values")
    if not all(result.isfinite().all() for result in (first, large, flat)) or large.abs().max() > 3000 or first.abs().max() > 100:
        raise ValueError("it grows too fast")
    if (near - first).abs().max() > 0.02:
        raise ValueError("it jumps")
    if first.std() < 0.02 or torch.equal(first, compute(torch.randn(x.shape))):
        raise ValueError("it is nearly constant")


def _entry(name: str, layer: str, call: str, domain: str, rank: int) -> dict[str, Any] | None:
    signal.setitimer(signal.ITIMER_PROF, _SECONDS_PER_TRIAL)
    try:
        shapes = [_run(layer, call, domain, shape) for shape in PROBES[rank]]
    except Exception:  # an operator that fails in whatever way is not for the list
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if len({len(shape) for shape in shapes}) > 1:
        return None
    out = [_dimension(list(PROBES[rank]), [shape[i] for shape in shapes], i) for i in range(len(shapes[0]))]
    return None if None in out else {"name": name, "rank": rank, "layer": layer, "call": call.replace("{a}", domain), "out": out}


def _entries(name: str, item: Any) -> list[dict[str, Any]]:
    found = []
    for rank in PROBES:
        if inspect.isclass(item):
            arguments = _module(item, PROBES[rank][0])
            forms = [] if arguments is None else [(f"{name}({arguments})", "{m}({a})")]
        else:
            forms = [("", form.replace("{f}", name).replace("{spatial}", str(rank - 2))) for form in FORMS]
        tried = itertools.product(forms, DOMAINS)
        entry = next((made for (layer, call), domain in tried if (made := _entry(name, layer, call, domain, rank))), None)
        if entry:
            found.append(entry)
    return found


def _child(sender: Connection, name: str, item: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS_PER_OPERATOR, _SECONDS_PER_OPERATOR))
    signal.signal(signal.SIGPROF, _late)
    torch.set_num_threads(1)
    with Path(os.devnull).open("w") as quiet, contextlib.redirect_stdout(quiet):
        os.dup2(quiet.fileno(), 2)  # torch warns below Python too
        sender.send(_entries(name, item))


def _in_child(named: tuple[str, Any]) -> list[dict[str, Any]]:
    # Some functions end the process or take all memory when they are given what they do not expect.
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(sender, *named))
    child.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(_WALL_SECONDS_PER_OPERATOR) else []  # type: ignore[no-any-return]
    except EOFError:
        return []
    finally:
        child.kill()
        child.join()


def find() -> list[dict[str, Any]]:
    """Return an entry for each operator and rank that works."""
    with ThreadPool(os.cpu_count()) as pool:
        return [entry for entries in pool.imap(_in_child, names()) for entry in entries]


def _late(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    """Write the list, or say whether the committed one is what this torch gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the list is not what this torch gives")
    given = parser.parse_args()
    torch.set_warn_always(True)
    warnings.simplefilter("error")  # what warns of its end is not for the list
    found = find()
    lines = ",\n".join("  " + json.dumps(entry) for entry in found)
    text = f'{{"torch": "{torch.__version__.split("+")[0]}", "operators": [\n{lines}\n]}}\n'
    if given.check and given.out.read_text() != text:
        raise SystemExit(f"{given.out} is not what torch {torch.__version__} gives; run scripts/operators.py")
    if not given.check:
        given.out.write_text(text)
    print(f"{len(found)} entries of {len({entry['name'] for entry in found})} operators: {given.out}")


if __name__ == "__main__":
    main()
