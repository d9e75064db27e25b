"""Which device kernels an ATen operator launches in eager mode, and of what kind they are."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from adaexplore_evaluator.devices.cpu import constants as k
from adaexplore_evaluator.devices.cpu import operator_names as names


class Kind(enum.Enum):
    """Kinds of device kernels that differ in the share of the peaks they reach and in how they fuse."""

    VIEW = "view"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    PRODUCT = "product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    WINDOW = "window"
    OTHER = "other"


# What the ceiling of products bounds.
PRODUCTS = frozenset({Kind.PRODUCT, Kind.CONVOLUTION, Kind.ATTENTION})


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """One kernel of a library or of torch.compile with its bytes and operations.

    `reread_bytes` are read again after the first pass over rows of `row_bytes`; which memory serves them depends on the target.
    `blocks` is set where the kernel cannot use more multiprocessors than that, 0 where it spreads over all. `memory_share` is what it
    reaches of the bandwidth of a plain copy.
    """

    name: str
    kind: Kind
    bytes_read: float
    bytes_written: float
    flops: float = 0.0
    special_functions: float = 0.0
    reread_bytes: float = 0.0
    row_bytes: float = 0.0
    blocks: int = 0
    memory_share: float = 1.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One kernel of an operator: its bytes as multiples of the operator's bytes read and written, and passes over its rows.

    `memory_share` holds for rows longer than the first and up to the second of `slow_row_bytes`.
    """

    kind: Kind
    read: tuple[float, float] = (1.0, 0.0)
    written: tuple[float, float] = (0.0, 1.0)
    rereads: int = 0
    rereads_from_bytes: float = 0.0
    memory_share: float = 1.0
    slow_row_bytes: tuple[float, float] = (0.0, math.inf)


_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **dict.fromkeys(names.VIEWS, Kind.VIEW),
        **dict.fromkeys(names.POINTWISE, Kind.POINTWISE),
        **dict.fromkeys(names.REDUCTIONS, Kind.REDUCTION),
        **dict.fromkeys(names.NORMS | names.LOSSES | {"cross_entropy_loss"}, Kind.REDUCTION),
        **dict.fromkeys(names.PRODUCTS, Kind.PRODUCT),
        **dict.fromkeys(names.CONVOLUTIONS, Kind.CONVOLUTION),
        **dict.fromkeys(names.ATTENTION, Kind.ATTENTION),
        **dict.fromkeys(names.WINDOWS, Kind.WINDOW),
    }
)

_READ_ALL = (1.0, 0.0)
_WRITE_ALL = (0.0, 1.0)
_SMALL = Stage(Kind.POINTWISE, read=(0.0, 1.0), written=(0.0, 1.0))
# A row up to this size stays in shared memory in ATen's softmax; a longer one is read three times.
_SOFTMAX_ROW_BYTES = 47 * 1024
# A row up to this size is one warp's.
_WARP_ROW_BYTES = 4 * 1024
_SOFTMAX = (
    Stage(
        Kind.REDUCTION,
        rereads=2,
        rereads_from_bytes=_SOFTMAX_ROW_BYTES,
        memory_share=k.ATEN_SOFTMAX_SHARE,
        slow_row_bytes=(_WARP_ROW_BYTES, _SOFTMAX_ROW_BYTES),
    ),
)
_NORM = (Stage(Kind.REDUCTION, rereads=1, memory_share=k.ATEN_NORM_SHARE),)
_REDUCTION = Stage(Kind.REDUCTION, memory_share=k.ATEN_REDUCTION_SHARE)
_STRIDED_COPY = (Stage(Kind.POINTWISE, memory_share=k.ATEN_STRIDED_SHARE, slow_row_bytes=(-1.0, math.inf)),)
_NORM_OVER_BATCH = (Stage(Kind.REDUCTION, written=(0.0, 0.0)), Stage(Kind.POINTWISE))
_ELEMENTWISE_LOSS = (
    Stage(Kind.POINTWISE, written=(0.5, 0.0)),
    Stage(Kind.REDUCTION, read=(0.5, 0.0)),
)
_DIVERGENCE = (
    Stage(Kind.POINTWISE, read=(0.5, 0.0), written=(0.5, 0.0)),
    Stage(Kind.POINTWISE, written=(0.5, 0.0)),
    Stage(Kind.POINTWISE, written=(0.5, 0.0)),
    Stage(Kind.REDUCTION, read=(0.5, 0.0)),
)

# Operators that are more than one kernel, or one that passes over its rows more than once.
_STAGES: Mapping[str, tuple[Stage, ...]] = MappingProxyType(
    {
        # What is cloned or made contiguous was strided.
        "clone": _STRIDED_COPY,
        "contiguous": _STRIDED_COPY,
        "softmax": _SOFTMAX,
        "_softmax": _SOFTMAX,
        "_safe_softmax": _SOFTMAX,
        "log_softmax": _SOFTMAX,
        "_log_softmax": _SOFTMAX,
        "layer_norm": _NORM,
        "native_layer_norm": _NORM,
        "rms_norm": _NORM,
        "_fused_rms_norm": _NORM,
        "batch_norm": _NORM_OVER_BATCH,
        "native_batch_norm": _NORM_OVER_BATCH,
        "_native_batch_norm_legit": _NORM_OVER_BATCH,
        "_batch_norm_with_update": _NORM_OVER_BATCH,
        "cudnn_batch_norm": _NORM_OVER_BATCH,
        "instance_norm": _NORM_OVER_BATCH,
        "group_norm": (Stage(Kind.REDUCTION, written=(0.0, 0.0)), Stage(Kind.POINTWISE, (0.0, 0.0), (0.0, 0.0)), Stage(Kind.POINTWISE)),
        "native_group_norm": (
            Stage(Kind.REDUCTION, written=(0.0, 0.0)),
            Stage(Kind.POINTWISE, (0.0, 0.0), (0.0, 0.0)),
            Stage(Kind.POINTWISE),
        ),
        "cross_entropy_loss": (
            Stage(Kind.REDUCTION, written=_READ_ALL, rereads=2, rereads_from_bytes=_SOFTMAX_ROW_BYTES),
            Stage(Kind.REDUCTION, read=(0.0, 1.0)),
        ),
        "mse_loss": _ELEMENTWISE_LOSS,
        "smooth_l1_loss": _ELEMENTWISE_LOSS,
        "huber_loss": _ELEMENTWISE_LOSS,
        "binary_cross_entropy": _ELEMENTWISE_LOSS,
        "binary_cross_entropy_with_logits": _ELEMENTWISE_LOSS,
        "soft_margin_loss": _ELEMENTWISE_LOSS,
        "l1_loss": (
            Stage(Kind.POINTWISE, written=(0.5, 0.0)),
            Stage(Kind.POINTWISE, read=(0.5, 0.0), written=(0.5, 0.0)),
            Stage(Kind.REDUCTION, read=(0.5, 0.0)),
        ),
        "kl_div": _DIVERGENCE,
        # maximum; abs, eq, masked_fill of it; difference; exponential; sum; logarithm; sum with the maximum.
        "logsumexp": (
            _REDUCTION,
            _SMALL,
            _SMALL,
            _SMALL,
            Stage(Kind.POINTWISE, written=_READ_ALL, memory_share=k.ATEN_STRIDED_SHARE),
            Stage(Kind.POINTWISE, written=_READ_ALL),
            _REDUCTION,
            _SMALL,
            _SMALL,
        ),
    }
)
_SINGLE: Mapping[Kind, tuple[Stage, ...]] = MappingProxyType(
    {kind: (_REDUCTION if kind is Kind.REDUCTION else Stage(kind),) for kind in Kind if kind is not Kind.VIEW}
)


def base_name(operator: str) -> str:
    """An operator's name without namespace, overload and in-place mark: `aten.add_.Tensor` is `add`."""
    name = operator.replace("::", ".").removeprefix("torch.ops.").removeprefix("aten.").removeprefix("torch.nn.functional.")
    name = name.removeprefix("torch.Tensor.").removeprefix("torch.").split(".")[0].rstrip(">")
    name = "getitem" if "getitem" in name else name
    return name[:-1] if name.endswith("_") and not name.startswith("__") else name


def kind_of(operator: str) -> Kind:
    """Kind of the operator's main kernel; OTHER for an operator that is not known."""
    return _KINDS.get(base_name(operator), Kind.OTHER)


def is_view(operator: str, bytes_written: float) -> bool:
    """True if the call launches nothing: a view by name, or a call that writes nothing."""
    return kind_of(operator) is Kind.VIEW or bytes_written <= 0


def special_functions_per_element(operator: str) -> float:
    """Special functions that one element of the operator's larger side costs."""
    name = base_name(operator)
    if name in names.ONE_SPECIAL_FUNCTION:
        return 1.0
    if name in names.TWO_SPECIAL_FUNCTIONS:
        return 2.0
    return 4.0 if name in names.FOUR_SPECIAL_FUNCTIONS else 0.0


def eager_kernels(
    operator: str, bytes_read: float, bytes_written: float, flops: float, *, row_bytes: float = 0.0, element_bytes: int = 4
) -> tuple[DeviceKernel, ...]:
    """Device kernels of one call in eager mode; empty for a view.

    `row_bytes` is the length of the rows a reduction passes over, 0 when unknown; then its rows count as short. Operations are the
    first kernel's.
    """
    if is_view(operator, bytes_written):
        return ()
    name, kind = base_name(operator), kind_of(operator)
    elements = max(bytes_read, bytes_written) / element_bytes
    special = special_functions_per_element(operator) * elements
    stages = _STAGES.get(name) or _SINGLE[kind]
    kernels = [_kernel(operator, stage, bytes_read, bytes_written, row_bytes) for stage in stages]
    return (replace(kernels[0], flops=flops, special_functions=special), *kernels[1:])


def _kernel(operator: str, stage: Stage, bytes_read: float, bytes_written: float, row_bytes: float) -> DeviceKernel:
    read = stage.read[0] * bytes_read + stage.read[1] * bytes_written
    written = stage.written[0] * bytes_read + stage.written[1] * bytes_written
    rereads = stage.rereads if row_bytes > stage.rereads_from_bytes else 0
    return DeviceKernel(
        name=operator,
        kind=stage.kind,
        bytes_read=read,
        bytes_written=written,
        reread_bytes=rereads * read,
        row_bytes=row_bytes,
        memory_share=stage.memory_share if stage.slow_row_bytes[0] < row_bytes <= stage.slow_row_bytes[1] else 1.0,
    )


def product_dtype(name: str) -> str:
    """The constants' name for a product's operand type, from a counter's or a class's spelling."""
    lowered = name.lower().removeprefix("precision_class_").removeprefix("torch.")
    if lowered.startswith(("float8", "fp8")):
        return "fp8"
    return k.PRODUCT_DTYPES.get(lowered, lowered)
