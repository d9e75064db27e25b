"""Datasheet figures of the targets that latencies are estimated for, each with its public source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MIB = 1 << 20
KIB = 1 << 10
TERA = 1e12
NVIDIA_GUIDE = (
    "NVIDIA CUDA C++ Programming Guide, Compute Capabilities and Arithmetic Instructions: warps, blocks, registers, shared memory, "
    "16 special functions a clock and multiprocessor"
)
CDNA_GUIDE = "AMD CDNA 3 and CDNA 2 Instruction Set Architecture guides: waves, vector registers, LDS; transcendentals at a quarter rate"


class UnknownTargetError(LookupError):
    """There is no datasheet for the target; the message lists the known ones."""

    def __init__(self, target: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no datasheet for target {target!r}; known targets: {', '.join(known)}")
        self.target = target
        self.known = known


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Limits of one streaming multiprocessor (or compute unit), which decide occupancy.

    Registers are 32-bit; `register_unit` is the granularity in which a warp gets them and `partitions` the number of schedulers that
    own an equal share each. Shared memory is in bytes.
    """

    lanes_per_warp: int
    warps: int
    programs: int
    registers: int
    register_unit: int
    registers_per_thread: int
    partitions: int
    shared_bytes: int
    shared_bytes_per_program: int
    shared_bytes_reserved: int
    shared_unit: int


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Peak figures of one target; rates are per second at boost clock, dense, memory in bytes.

    `tensor_flops_per_second` is keyed by `tf32`, `bf16`, `fp16`, `fp8` and `int8`; a missing key means that the target has no such
    unit. `sources` names the public document behind each group of figures.
    """

    target: str
    device_name: str
    multiprocessors: int
    clock_hz: float
    multiprocessor: Multiprocessor
    l2_bytes: int
    l2_bytes_per_second: float
    dram_bytes_per_second: float
    dram_latency_s: float
    fp32_flops_per_second: float
    tensor_flops_per_second: Mapping[str, float]
    special_functions_per_clock: int
    warps_for_full_tensor_rate: int
    launch_us: float
    sources: tuple[str, ...]

    @property
    def special_functions_per_second(self) -> float:
        """Exponentials, reciprocals and the like that all multiprocessors finish in a second."""
        return self.special_functions_per_clock * self.multiprocessors * self.clock_hz


def _nvidia(warps: int, programs: int, shared_kib: int) -> Multiprocessor:
    return Multiprocessor(
        lanes_per_warp=32,
        warps=warps,
        programs=programs,
        registers=65536,
        register_unit=256,
        registers_per_thread=255,
        partitions=4,
        shared_bytes=shared_kib * KIB,
        shared_bytes_per_program=(shared_kib - 1) * KIB,
        shared_bytes_reserved=KIB,
        shared_unit=128,
    )


# 512 vector registers a lane, accumulation registers included, on each of four SIMD units; LDS is handed out in 512 bytes.
_CDNA = Multiprocessor(
    lanes_per_warp=64,
    warps=32,
    programs=32,
    registers=131072,
    register_unit=512,
    registers_per_thread=512,
    partitions=4,
    shared_bytes=64 * KIB,
    shared_bytes_per_program=64 * KIB,
    shared_bytes_reserved=0,
    shared_unit=512,
)


def _rates(**tera: float) -> Mapping[str, float]:
    return MappingProxyType({name: value * TERA for name, value in tera.items()})


_SM_80 = Datasheet(
    target="sm_80",
    device_name="NVIDIA A100 80GB SXM",
    multiprocessors=108,
    clock_hz=1.41e9,
    multiprocessor=_nvidia(warps=64, programs=32, shared_kib=164),
    l2_bytes=40 * MIB,
    l2_bytes_per_second=7.2e12,
    dram_bytes_per_second=2.039e12,
    dram_latency_s=0.60e-6,
    fp32_flops_per_second=19.5 * TERA,
    tensor_flops_per_second=_rates(tf32=156, bf16=312, fp16=312, int8=624),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=1,
    launch_us=3.0,
    sources=(
        "NVIDIA A100 Tensor Core GPU datasheet: DRAM bandwidth, fp32 and tensor rates (dense)",
        "NVIDIA A100 Tensor Core GPU Architecture whitepaper: multiprocessors, boost clock, L2 size, 5,120 B/clock of L2 reads",
        "Chips and Cheese, microbenchmarks of A100: DRAM latency, which no datasheet states",
        NVIDIA_GUIDE,
    ),
)

_SM_86 = Datasheet(
    target="sm_86",
    device_name="NVIDIA RTX A6000",
    multiprocessors=84,
    clock_hz=1.80e9,
    multiprocessor=_nvidia(warps=48, programs=16, shared_kib=100),
    l2_bytes=6 * MIB,
    l2_bytes_per_second=2.2e12,
    dram_bytes_per_second=0.768e12,
    dram_latency_s=0.60e-6,
    fp32_flops_per_second=38.7 * TERA,
    tensor_flops_per_second=_rates(tf32=77.4, bf16=154.8, fp16=154.8, int8=309.7),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=1,
    launch_us=3.0,
    sources=(
        "NVIDIA RTX A6000 datasheet: DRAM bandwidth and fp32 rate",
        "NVIDIA Ampere GA102 GPU Architecture whitepaper: multiprocessors, clock, L2 size, dense tensor rates",
        "Chips and Cheese, microbenchmarks of GA102: reached L2 bandwidth and DRAM latency, which no datasheet states",
        NVIDIA_GUIDE,
    ),
)

_SM_89 = Datasheet(
    target="sm_89",
    device_name="NVIDIA L40S",
    multiprocessors=142,
    clock_hz=2.52e9,
    multiprocessor=_nvidia(warps=48, programs=24, shared_kib=100),
    l2_bytes=96 * MIB,
    l2_bytes_per_second=4.5e12,
    dram_bytes_per_second=0.864e12,
    dram_latency_s=0.60e-6,
    fp32_flops_per_second=91.6 * TERA,
    tensor_flops_per_second=_rates(tf32=183, bf16=362, fp16=362, fp8=733, int8=733),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=1,
    launch_us=3.0,
    sources=(
        "NVIDIA L40S datasheet: DRAM bandwidth, fp32 rate, tensor rates (halved to dense)",
        "NVIDIA Ada GPU Architecture whitepaper: multiprocessors, clock, L2 size",
        "Chips and Cheese, microbenchmarks of AD102: reached L2 bandwidth and DRAM latency, which no datasheet states",
        NVIDIA_GUIDE,
    ),
)

_SM_90 = Datasheet(
    target="sm_90",
    device_name="NVIDIA H200 SXM",
    multiprocessors=132,
    clock_hz=1.98e9,
    multiprocessor=_nvidia(warps=64, programs=32, shared_kib=228),
    l2_bytes=60 * MIB,
    l2_bytes_per_second=10.1e12,
    dram_bytes_per_second=4.8e12,
    dram_latency_s=0.65e-6,
    fp32_flops_per_second=67 * TERA,
    tensor_flops_per_second=_rates(tf32=494, bf16=989, fp16=989, fp8=1979, int8=1979),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=4,
    launch_us=3.0,
    sources=(
        "NVIDIA H200 Tensor Core GPU datasheet: DRAM bandwidth, fp32 and tensor rates (halved to dense)",
        "NVIDIA H100 Tensor Core GPU Architecture whitepaper: multiprocessors, clock; L2 size as the driver of an H200 reports it",
        "No public figure for L2 bandwidth: the 5,120 B/clock that the A100 whitepaper states, at this clock",
        "Chips and Cheese, microbenchmarks of H100: DRAM latency, which no datasheet states",
        NVIDIA_GUIDE,
    ),
)

_SM_100 = Datasheet(
    target="sm_100",
    device_name="NVIDIA B200",
    multiprocessors=148,
    clock_hz=1.965e9,
    multiprocessor=_nvidia(warps=64, programs=32, shared_kib=228),
    l2_bytes=126 * MIB,
    l2_bytes_per_second=11.3e12,
    dram_bytes_per_second=8.0e12,
    dram_latency_s=0.75e-6,
    fp32_flops_per_second=75 * TERA,
    tensor_flops_per_second=_rates(tf32=1100, bf16=2250, fp16=2250, fp8=4500, int8=4500),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=4,
    launch_us=3.0,
    sources=(
        "NVIDIA HGX B200 datasheet: DRAM bandwidth, fp32 and tensor rates (an eighth of the board, halved to dense)",
        "NVIDIA Blackwell tuning guide and the driver's device attributes: multiprocessors, clock, L2 size",
        "No public figure for L2 bandwidth and DRAM latency: those of H100, bandwidth in proportion to the multiprocessors",
        NVIDIA_GUIDE,
    ),
)

_GFX942 = Datasheet(
    target="gfx942",
    device_name="AMD Instinct MI300X",
    multiprocessors=304,
    clock_hz=2.1e9,
    multiprocessor=_CDNA,
    l2_bytes=32 * MIB,
    l2_bytes_per_second=17.2e12,
    dram_bytes_per_second=5.3e12,
    dram_latency_s=0.80e-6,
    fp32_flops_per_second=163.4 * TERA,
    tensor_flops_per_second=_rates(tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9, int8=2614.9),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=1,
    launch_us=6.0,
    sources=(
        "AMD Instinct MI300X Accelerator datasheet: compute units, clock, DRAM bandwidth, fp32 and matrix rates (dense)",
        "AMD CDNA 3 Architecture whitepaper: L2 of 4 MB on each of 8 dies; bandwidth of the Infinity Cache, which serves them all",
        "Chips and Cheese, microbenchmarks of MI300X: DRAM latency",
        CDNA_GUIDE,
    ),
)

_GFX90A = Datasheet(
    target="gfx90a",
    device_name="AMD Instinct MI250X, one of two dies",
    multiprocessors=110,
    clock_hz=1.7e9,
    multiprocessor=_CDNA,
    l2_bytes=8 * MIB,
    l2_bytes_per_second=3.5e12,
    dram_bytes_per_second=1.6e12,
    dram_latency_s=0.80e-6,
    fp32_flops_per_second=23.9 * TERA,
    tensor_flops_per_second=_rates(bf16=191.5, fp16=191.5, int8=191.5),
    special_functions_per_clock=16,
    warps_for_full_tensor_rate=1,
    launch_us=6.0,
    sources=(
        "AMD Instinct MI250X Accelerator datasheet: clock, DRAM bandwidth, vector and matrix rates, halved to one die",
        "AMD CDNA 2 Architecture whitepaper: 110 compute units, 8 MB of L2 and its bandwidth a die",
        "Chips and Cheese, microbenchmarks of CDNA 2: DRAM latency",
        CDNA_GUIDE,
    ),
)

_DATASHEETS: Mapping[str, Datasheet] = MappingProxyType(
    {sheet.target: sheet for sheet in (_SM_80, _SM_86, _SM_89, _SM_90, _SM_100, _GFX942, _GFX90A)}
)


def known_targets() -> tuple[str, ...]:
    """Names of the targets that have a datasheet, in order of age within a vendor."""
    return tuple(_DATASHEETS)


def datasheet(target: str) -> Datasheet:
    """The datasheet of a target such as `sm_90`; raises UnknownTargetError, which lists the known ones."""
    sheet = _DATASHEETS.get(target)
    if sheet is None:
        raise UnknownTargetError(target, known_targets())
    return sheet
