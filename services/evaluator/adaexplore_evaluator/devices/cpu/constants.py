"""The constants of the latency model; docs/estimate.md gives their sources and what they cannot know.

A *share* is the part of a datasheet's peak that code of that kind reaches on a full chip.
"""

from __future__ import annotations

from types import MappingProxyType

# Memory. One share for every kernel, a library's or a candidate's, so that the same work never looks like a speedup.
DRAM_SHARE = 0.90
L2_SHARE = 0.95
# What ATen's own kernels reach of that in eager mode: operands that are broadcast or strided, plain reductions, normalisations, and
# softmax of rows that fill more than one warp and less than shared memory.
ATEN_STRIDED_SHARE = 0.62
ATEN_REDUCTION_SHARE = 0.80
ATEN_NORM_SHARE = 0.70
ATEN_SOFTMAX_SHARE = 0.47
# Part of the L2 that still holds the data of a moment ago.
L2_RESIDENT_SHARE = 0.50
# Rows that one multiprocessor works on at a time when a row is too long for registers, and the part of its L1 they may fill.
ROWS_IN_FLIGHT = 4
L1_RESIDENT_SHARE = 0.50
# Bytes that one multiprocessor has under way in a library's memory-bound kernel: 2,048 threads with half of 32 registers each.
LIBRARY_BYTES_IN_FLIGHT = 131072.0
# The same for one block of a kernel that gives each row to a block: a few hundred threads with one vector each.
LIBRARY_BLOCK_BYTES_IN_FLIGHT = 8192.0
# Bytes a clock between one multiprocessor and the L2.
L2_BYTES_PER_CLOCK = 64.0
# Part of a thread's registers that can wait for loads.
REGISTERS_IN_FLIGHT_SHARE = 0.50
# A spilled byte is stored once and loaded once, in every iteration of the program's loops.
SPILL_ACCESSES = 2.5
# Latency of an access that the L2 answers, as a part of device memory's.
L2_LATENCY_SHARE = 0.50
# Warps of one multiprocessor whose dependent instructions fill its units; a program with fewer computes that much slower on its own.
SERIAL_WARPS = 18.0
# How much slower that is beside a product, whose results change their layout through shared memory.
EPILOGUE_SERIAL = 1.8
# Bytes that each thread asks for in one trip to memory, at least.
ACCESS_BYTES = 4.0
# Bytes that it has from device memory in one such trip.
VECTOR_BYTES = 16.0
# Inner dimension of a library's product that one iteration of its loop takes.
LIBRARY_STEP = 32.0

# Arithmetic. Pointwise fp32 code seldom fuses multiplication and addition.
FP32_SHARE = 0.40
# Triton's `ieee` product loads its operands from shared memory for every block of results that a thread keeps: a thread with this many
# results reaches half of the share.
FP32_DOT_SHARE_TRITON = 0.52
FP32_DOT_HALF_RESULTS = 48.0
# A program that writes this many times the squared harmonic mean of its tile's edges computes several tiles in turn.
OBLONG_TILE = 6.0
FP32_DOT_SHARE_LIBRARY = 0.76
TENSOR_SHARE_TRITON = 0.68
TENSOR_SHARE_LIBRARY = 0.80
# What a library's convolution and attention reach of the rate of its plain product.
CONVOLUTION_SHARE = 0.80
ATTENTION_SHARE = 0.70
SPECIAL_SHARE = 0.95
# Edge of the smallest tile a library cuts a product into, and the shortest inner dimension it gives to one of them.
LIBRARY_TILE = 64.0
LIBRARY_SPLIT = 512.0
# Part of the rate that is left with fewer warps a program than the target's tensor instructions want.
FEW_WARPS_SHARE = 0.60
# Atomic updates that one multiprocessor gets through in a clock, spread over addresses.
ATOMICS_PER_CLOCK = 1.0
# Programs the whole chip starts in a clock.
PROGRAM_STARTS_PER_CLOCK = 0.84

# Operand bytes by the name the counters use for a product's type.
OPERAND_BYTES = MappingProxyType({"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1})
# Spellings of a product's type that the counters and precision classes use.
PRODUCT_DTYPES = MappingProxyType(
    {
        "": "fp32",
        "ieee": "fp32",
        "float32": "fp32",
        "float64": "fp32",
        "bfloat16": "bf16",
        "float16": "fp16",
        "float8": "fp8",
    }
)
# Where a target lacks a unit the product runs on the next wider one.
WIDER_DTYPE = MappingProxyType({"fp8": "fp16", "int8": "fp16", "bf16": "fp16", "fp16": "tf32", "tf32": "fp32"})
