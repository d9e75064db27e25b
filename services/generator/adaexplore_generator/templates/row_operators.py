"""Reductions, norms, soft-max and losses of ATen in the intermediate form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from adaexplore_generator.templates.builder import Builder, CallReader
from adaexplore_generator.templates.ir import UnsupportedError

Lowering = Callable[[CallReader], tuple[str, ...]]


def _kept(call: CallReader, value: str, dims: Sequence[int], keepdim: bool) -> tuple[str, ...]:
    return (value if keepdim else call.builder.drop(value, dims),)


def _mean_of(builder: Builder, value: str, dims: Sequence[int], hint: str = "mean") -> str:
    (total,) = builder.reduce("sum", value, dims)
    return builder.map("div", total, builder.extent(value, dims), hint=hint)


def _simple(kind: str, *, mean: bool = False) -> Lowering:
    """`sum`, `mean`, `amax` and `amin`, over some dims or over all."""

    def lower(call: CallReader) -> tuple[str, ...]:
        call.refuse_dtype(3, "dtype")
        value = call.float_tensor(0, "self")
        whole = call.call.operator.endswith(".default") and kind == "sum"
        dims = tuple(range(len(call.builder.shape(value)))) if whole else call.dims(1, "dim", len(call.builder.shape(value)))
        keepdim = False if whole else call.flag(2, "keepdim", False)
        reduced = _mean_of(call.builder, value, dims) if mean else call.builder.reduce(kind, value, dims)[0]
        return _kept(call, reduced, dims, keepdim)

    return lower


def _extremum(kind: str) -> Lowering:
    """`max` and `min`: of everything, or over one dim with indices (which are left to torch if anyone asks for them)."""

    def lower(call: CallReader) -> tuple[str, ...]:
        value = call.float_tensor(0, "self")
        rank = len(call.builder.shape(value))
        if call.call.operator.endswith(".other"):
            function = "maximum" if kind == "max" else "minimum"
            return (call.builder.map(function, value, call.operand(1, "other"), hint=call.result),)
        dims = call.dims(1, "dim", rank)
        (reduced,) = call.builder.reduce(kind, value, dims)
        return _kept(call, reduced, dims, call.flag(2, "keepdim", False))

    return lower


def _softmax(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "self")
    dims = (call.integer(1, "dim", -1) % len(builder.shape(value)),)
    top, total = builder.reduce("softmax", value, dims)
    raised = builder.map("exp", builder.map("sub", value, top, hint="shifted"), hint="exponential")
    return (builder.map("div", raised, total, hint=call.result),)


def _log_softmax(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "self")
    dims = (call.integer(1, "dim", -1) % len(builder.shape(value)),)
    top, total = builder.reduce("softmax", value, dims)
    shifted = builder.map("sub", value, top, hint="shifted")
    return (builder.map("sub", shifted, builder.map("log", total, hint="log_sum"), hint=call.result),)


def _logsumexp(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "self")
    dims = call.dims(1, "dim", len(builder.shape(value)))
    top, total = builder.reduce("logsumexp", value, dims)
    result = builder.map("add", top, builder.map("log", total, hint="log_sum"), hint=call.result)
    return _kept(call, result, dims, call.flag(2, "keepdim", False))


def _normalised(builder: Builder, value: str, dims: Sequence[int], eps: float) -> str:
    mean, variance = builder.reduce("moments", value, dims)
    scale = builder.map("rsqrt", builder.map("add", variance, eps), hint="scale")
    return builder.map("mul", builder.map("sub", value, mean, hint="centred"), scale, hint="normalised")


def _affine(call: CallReader, value: str, weight: str | None, bias: str | None) -> str:
    if weight is not None:
        value = call.builder.map("mul", value, weight, hint="weighted")
    if bias is not None:
        value = call.builder.map("add", value, bias, hint=call.result)
    return value


def _trailing_dims(call: CallReader, value: str) -> tuple[int, ...]:
    here, there = (call._pick(each, 1, "normalized_shape", ()) for each in (call.call, call.judged))
    if not isinstance(here, tuple) or not isinstance(there, tuple) or len(here) != len(there):
        raise UnsupportedError("a normalised shape that changes its rank")
    rank = len(call.builder.shape(value))
    return tuple(range(rank - len(here), rank))


def _layer_norm(call: CallReader) -> tuple[str, ...]:
    value = call.float_tensor(0, "input")
    dims = _trailing_dims(call, value)
    normalised = _normalised(call.builder, value, dims, call.number(4, "eps", 1e-5))
    return (_affine(call, normalised, call.tensor_or_none(2, "weight"), call.tensor_or_none(3, "bias")),)


def _rms_norm(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "input")
    dims = _trailing_dims(call, value)
    eps = call.raw(3, "eps")
    eps = (
        {"float32": 1.1920928955078125e-07, "float16": 0.0009765625, "bfloat16": 0.0078125}[builder.values[value].dtype]
        if eps is None
        else call.number(3, "eps")
    )
    mean_square = _mean_of(builder, builder.map("square", value, hint="square"), dims, hint="mean_square")
    scale = builder.map("rsqrt", builder.map("add", mean_square, eps), hint="scale")
    scaled = builder.map("mul", value, scale, hint=call.result)
    return (_affine(call, scaled, call.tensor_or_none(2, "weight"), None),)


def _batch_norm(call: CallReader) -> tuple[str, ...]:
    """Batch norm by its running statistics; batch statistics also write the running ones and stay in torch."""
    builder, value = call.builder, call.float_tensor(0, "input")
    if call.flag(5, "training", True):
        raise UnsupportedError("batch norm by batch statistics")
    rank = len(builder.shape(value))
    weight, bias, mean, variance = (
        builder.align(found, rank, 1) if (found := call.tensor_or_none(position, name)) is not None else None
        for position, name in ((1, "weight"), (2, "bias"), (3, "running_mean"), (4, "running_var"))
    )
    if mean is None or variance is None:
        raise UnsupportedError("batch norm without running statistics")
    scale = builder.map("rsqrt", builder.map("add", variance, call.number(7, "eps", 1e-5)), hint="scale")
    normalised = builder.map("mul", builder.map("sub", value, mean, hint="centred"), scale, hint="normalised")
    return (_affine(call, normalised, weight, bias),)


def _group_norm(call: CallReader) -> tuple[str, ...]:
    """Group norm: rows are the groups, so the input is viewed with its channels split."""
    builder, value = call.builder, call.float_tensor(0, "input")
    groups, shape = call.integer(1, "num_groups", 1), builder.shape(value)
    (batch, channels), rest = shape[:2], shape[2:]
    if channels[0] % groups or channels[1] % groups:
        raise UnsupportedError("groups that do not divide the channels at both shapes")
    depth = (channels[0] // groups, channels[1] // groups)
    split = builder.view(value, (batch, (groups, groups), depth, *rest), hint="grouped")
    rank = len(builder.shape(split))
    normalised = _normalised(builder, split, tuple(range(2, rank)), call.number(4, "eps", 1e-5))
    weight, bias = (
        builder.align(builder.view(found, ((groups, groups), depth), hint=name), rank, 1)
        if (found := call.tensor_or_none(position, name)) is not None
        else None
        for position, name in ((2, "weight"), (3, "bias"))
    )
    return (builder.view(_affine(call, normalised, weight, bias), shape, hint=call.result),)


def _instance_norm(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "input")
    if call.raw(3, "running_mean") is not None or not call.flag(5, "use_input_stats", True):
        raise UnsupportedError("instance norm with running statistics")
    rank = len(builder.shape(value))
    weight, bias = (
        builder.align(found, rank, 1) if (found := call.tensor_or_none(position, name)) is not None else None
        for position, name in ((1, "weight"), (2, "bias"))
    )
    normalised = _normalised(builder, value, tuple(range(2, rank)), call.number(7, "eps", 1e-5))
    return (_affine(call, normalised, weight, bias),)


def _variance(call: CallReader, *, root: bool) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "self")
    if call.call.operator.rsplit(".", 1)[-1] == "correction":
        correction = call.raw(2, "correction", 1)
        correction = 1 if correction is None else correction
    else:
        correction = int(call.flag(2, "unbiased", True))
    dims = call.dims(1, "dim", len(builder.shape(value)))
    mean, result = builder.reduce("moments", value, dims)
    if correction:
        size = builder.extent(value, dims)
        # The biased variance times n / (n - correction).
        zero = builder.map("mul", mean, 0.0)
        number = builder.map("add", zero, size)
        factor = builder.map("div", number, builder.map("sub", number, float(correction)))  # type: ignore[arg-type]
        result = builder.map("mul", result, factor)
    if root:
        result = builder.map("sqrt", result, hint=call.result)
    return _kept(call, result, dims, call.flag(3, "keepdim", False))


def _vector_norm(call: CallReader) -> tuple[str, ...]:
    builder, value = call.builder, call.float_tensor(0, "self")
    order = call.raw(1, "p" if "linalg" not in call.call.operator else "ord", 2)
    order = 2.0 if order is None else float(order)  # type: ignore[arg-type]
    dims = call.dims(2, "dim", len(builder.shape(value)))
    if order == 2.0:
        (total,) = builder.reduce("sum", builder.map("square", value), dims)
        result = builder.map("sqrt", total, hint=call.result)
    elif order == 1.0:
        (result,) = builder.reduce("sum", builder.map("abs", value), dims)
    elif math.isinf(order):
        (result,) = builder.reduce("max" if order > 0 else "min", builder.map("abs", value), dims)
    else:
        raise UnsupportedError(f"a norm of order {order}")
    return _kept(call, result, dims, call.flag(3, "keepdim", False))


def _reduced_loss(call: CallReader, loss: str, reduction: int) -> tuple[str, ...]:
    """A loss an element, its mean or its sum."""
    if reduction == 0:
        return (loss,)
    builder = call.builder
    dims = tuple(range(len(builder.shape(loss))))
    total = _mean_of(builder, loss, dims) if reduction == 1 else builder.reduce("sum", loss, dims)[0]
    return (builder.drop(total, dims),)


def _element_loss(function: str, *, extra: tuple[str, float] | None = None) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        builder = call.builder
        distance = builder.map("sub", call.float_tensor(0, "self"), call.float_tensor(1, "target"), hint="residue")
        delta = [call.number(3, *extra)] if extra else []
        loss = builder.map(function, distance, *delta, hint="loss")
        if function == "huber" and call.call.operator.startswith("aten.smooth_l1"):
            loss = builder.map("div", loss, delta[0])
        return _reduced_loss(call, loss, call.integer(2, "reduction", 1))

    return lower


def _cross_entropy(call: CallReader) -> tuple[str, ...]:
    """Cross entropy with class indices: the log-sum-exp of a row less its labelled entry, which is picked by a comparison."""
    builder, scores, label = call.builder, call.float_tensor(0, "self"), call.tensor(1, "target")
    if builder.is_float(label) or call.raw(2, "weight") is not None or call.number(5, "label_smoothing", 0.0) != 0.0:
        raise UnsupportedError("cross entropy with weights, smoothing or class probabilities")
    rank = len(builder.shape(scores))
    dim = 1 if rank > 1 else 0
    top, total = builder.reduce("softmax", scores, (dim,))
    label = builder.relabel(label, [axis if axis < dim else (None if axis == dim else axis - 1) for axis in range(rank)], hint="label")
    hit = builder.map("eq", builder.iota(scores, dim), label, hint="is_label")
    (picked,) = builder.reduce("sum", builder.map("where", hit, scores, 0.0), (dim,), ("picked",))
    loss = builder.map("sub", builder.map("add", top, builder.map("log", total, hint="log_sum")), picked, hint="row_loss")
    counted = builder.map("ne", label, float(call.integer(4, "ignore_index", -100)), hint="counted")
    loss = builder.drop(builder.map("where", counted, loss, 0.0, hint="loss"), (dim,))
    reduction = call.integer(3, "reduction", 1)
    if reduction != 1:
        return _reduced_loss(call, loss, reduction)
    weight = builder.drop(builder.map("to_float", counted, hint="weight"), (dim,))
    dims = tuple(range(rank - 1))
    (loss_sum,), (weight_sum,) = builder.reduce("sum", loss, dims, ("loss_sum",)), builder.reduce("sum", weight, dims, ("weight_sum",))
    return (builder.drop(builder.map("div", loss_sum, weight_sum, hint=call.result), dims),)


def _relabelling(change: Callable[[CallReader, int], list[int | None]]) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        value = call.tensor(0, "self")
        return (call.builder.relabel(value, change(call, len(call.builder.shape(value))), hint=call.result),)

    return lower


def _unsqueezed(call: CallReader, rank: int) -> list[int | None]:
    dim = call.integer(1, "dim", 0) % (rank + 1)
    return [*range(dim), None, *range(dim, rank)]


def _squeezed(call: CallReader, rank: int) -> list[int | None]:
    shape = call.builder.shape(call.tensor(0, "self"))
    dims = call.dims(1, "dim", rank)
    return [axis for axis in range(rank) if not (axis in dims and shape[axis] == (1, 1))]


ROWS: Mapping[str, Lowering] = {
    "sum": _simple("sum"),
    "mean": _simple("sum", mean=True),
    "amax": _simple("max"),
    "amin": _simple("min"),
    "max": _extremum("max"),
    "min": _extremum("min"),
    "softmax": _softmax,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "log_softmax": _log_softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "_fused_rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "group_norm": _group_norm,
    "var": lambda call: _variance(call, root=False),
    "std": lambda call: _variance(call, root=True),
    "norm": _vector_norm,
    "linalg_vector_norm": _vector_norm,
    "mse_loss": _element_loss("square"),
    "l1_loss": _element_loss("abs"),
    "smooth_l1_loss": _element_loss("huber", extra=("beta", 1.0)),
    "huber_loss": _element_loss("huber", extra=("delta", 1.0)),
    "cross_entropy_loss": _cross_entropy,
    "unsqueeze": _relabelling(_unsqueezed),
    "squeeze": _relabelling(_squeezed),
}
