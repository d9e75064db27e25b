"""What this very GPU reaches, measured by the referee: the ceilings of a roofline."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, roofline_us
from adaexplore_evaluator.devices.cpu.graph import MalformedGraphError
from adaexplore_evaluator.referee.cuda.canary import event_us
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.runner.cuda.flags import class_products
from adaexplore_evaluator.runner.precision import class_dtype

_COPIED_BYTES = 1 << 30
_SIDE = 8192
_SAMPLES = 7
_WARM_UPS = 3


class MeasuredCeilings:
    """Ceilings by precision class, each measured when it is first asked for: a copy of 1 GiB, and square products of 8192."""

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._products: dict[str, float] = {}

    def roofline_us(self, task: PreparedTask) -> float | None:
        """The task's roofline in microseconds; None where its operators are not known. The GPU must be held alone."""
        graph, precision = task.full.get("graph"), task.source.precision
        if not isinstance(graph, dict):
            return None
        try:
            return roofline_us(graph, self._of(precision)) or None
        except (MalformedGraphError, torch.OutOfMemoryError):
            return None

    def known(self, precision: str) -> Ceilings | None:
        """The ceilings of a class, if they have been measured."""
        if not self._bytes_per_second or not self._products.keys() >= {"fp32", precision}:
            return None
        return Ceilings(self._bytes_per_second, self._products[precision], self._products["fp32"])

    def _of(self, precision: str) -> Ceilings:
        self._bytes_per_second = self._bytes_per_second or copied_bytes_per_second()
        for name in ("fp32", precision):
            if name not in self._products:
                self._products[name] = product_flops_per_second(name)
        return Ceilings(self._bytes_per_second, self._products[precision], self._products["fp32"])


def copied_bytes_per_second() -> float:
    """Bytes read and written a second by a copy within the GPU's memory."""
    source = torch.empty(_COPIED_BYTES, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * _COPIED_BYTES / _median_s(lambda: target.copy_(source))


def product_flops_per_second(precision: str) -> float:
    """Floating point operations a second of a large product in a class."""
    left, right = (torch.randn(_SIDE, _SIDE, device="cuda").to(class_dtype(precision)) for _ in range(2))
    out = torch.empty_like(left)
    with class_products(precision):
        return float(2 * _SIDE**3) / _median_s(lambda: torch.mm(left, right, out=out))


def _median_s(work: Callable[[], object]) -> float:
    for _ in range(_WARM_UPS):
        work()
    return 1e-6 * statistics.median(event_us(work) for _ in range(_SAMPLES))
