"""Lessons about shapes, types and pointers of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from adaexplore_memory.distill.diagnosis import Diagnosis
from adaexplore_memory.distill.snippets import block_kernel, matmul_kernel
from adaexplore_memory.domain import Lesson, Snippet

_SHAPERS = ("zeros", "full", "reshape", "view", "broadcast_to", "zeros_like", "make_block_ptr", "make_tensor_descriptor")


@dataclass(frozen=True)
class Family:
    """A kind of refusal that always teaches the same.

    Attributes:
        signature: Its name.
        pattern: What the compiler says, as a regular expression.
        needs: Names of `triton.language` or `builtins.`, one of which the kernel must use; empty means nothing is needed.
        rule: Follows "You cannot".
        instead: What to do instead.
        reproducer: A kernel that is refused so.
        repairs: Kernels that do the same and compile.

    """

    signature: str
    pattern: str
    needs: tuple[str, ...]
    rule: str
    instead: str
    reproducer: Snippet
    repairs: tuple[Snippet, ...]

    def applies(self, found: Diagnosis) -> bool:
        """Return whether the compiler said so about a kernel that could cause it."""
        if not re.search(self.pattern, found.text):
            return False
        needed = [name if "." in name else f"triton.language.{name}" for name in self.needs]
        return not needed or any(found.uses(name) for name in needed)


def _one(*lines: str, before: tuple[str, ...] = ()) -> Snippet:
    return block_kernel(lines, before=before)


_TILE = "tile = tl.reshape(x, (32, 32))"
_SIZES = (
    Family(
        "arange-power-of-two",
        r"arange's range must be a power of 2",
        ("arange",),
        "call `tl.arange` over a range whose length is not a power of two.",
        "Take the next power of two as the length and mask what is beyond the end.",
        _one("result = x + tl.sum(tl.arange(0, 100), axis=0)"),
        (_one("index = tl.arange(0, 128)", "result = x + tl.sum(tl.where(index < 100, index, 0), axis=0)"),),
    ),
    Family(
        "arange-constexpr",
        r"arange's arguments must be of type tl\.constexpr",
        ("arange",),
        "call `tl.arange` with bounds that are not compile-time constants.",
        "Declare the bound as a parameter `BLOCK: tl.constexpr`, loop over blocks of it and mask the rest.",
        _one("result = x + tl.sum(tl.arange(0, n), axis=0)"),
        (_one("index = tl.arange(0, BLOCK)", "result = x + tl.sum(tl.where(index < n, index, 0), axis=0)"),),
    ),
    Family(
        "arange-order",
        r"arange's end argument must be greater than the start",
        ("arange",),
        "call `tl.arange` with an end that is not greater than its start.",
        "Give the lower bound first.",
        _one("result = x + tl.sum(tl.arange(4, 2), axis=0)"),
        (_one("result = x + tl.sum(tl.arange(2, 4), axis=0)"),),
    ),
    Family(
        "block-too-large",
        r"numel \(\d+\) exceeds triton maximum tensor numel",
        (*_SHAPERS, "arange", "load", "dot"),
        "use a block of more than 1,048,576 elements.",
        "Loop over smaller blocks and accumulate.",
        _one("result = x + tl.sum(tl.zeros((2097152,), dtype=tl.float32), axis=0)"),
        (_one("result = x + tl.sum(tl.zeros((1024,), dtype=tl.float32), axis=0)"),),
    ),
    Family(
        "shape-power-of-two",
        r"Shape element \d+ must be a power of 2",
        _SHAPERS,
        "use a block with an extent that is not a power of two.",
        "Take the next power of two and mask what is beyond the end.",
        _one("result = x + tl.sum(tl.zeros((100,), dtype=tl.float32), axis=0)"),
        (_one("result = x + tl.sum(tl.zeros((128,), dtype=tl.float32), axis=0)"),),
    ),
    Family(
        "shape-constexpr",
        r"Shape element \d+ must have type `constexpr",
        _SHAPERS,
        "use a block whose shape is not known when the kernel is compiled.",
        "Declare the extents as `tl.constexpr` parameters.",
        _one("result = x + tl.sum(tl.zeros((n,), dtype=tl.float32), axis=0)"),
        (_one("result = x + tl.sum(tl.zeros((BLOCK,), dtype=tl.float32), axis=0)"),),
    ),
    Family(
        "incompatible-shapes",
        r"Cannot make_shape_compatible: incompatible dimensions",
        (),
        "combine blocks whose extents differ and are not 1.",
        "Make the extents equal, or insert dimensions of 1 with `[:, None]` and `[None, :]`.",
        _one("result = x + tl.arange(0, 64)"),
        (_one("result = x + tl.arange(0, BLOCK)"),),
    ),
    Family(
        "reduction-axis",
        r"invalid axis -?\d+\. Expected",
        ("sum", "max", "min", "reduce", "argmax", "argmin", "softmax", "cumsum", "expand_dims", "associative_scan", "xor_sum", "sort"),
        "reduce a block along an axis that it does not have.",
        "Count the axes of the block that the program holds: a row is one-dimensional and has axis 0 alone.",
        _one("result = x + tl.sum(x, axis=1)"),
        (_one("result = x + tl.sum(x, axis=0)"),),
    ),
)
_PRODUCTS = (
    Family(
        "dot-reduction-extent",
        r"must have equal reduction dimensions|First input shape .* and second input shape .* are not compatible for matmul",
        ("dot",),
        "multiply blocks with `tl.dot` whose inner extents differ.",
        "Load blocks of (M, K) and (K, N); transpose one with `tl.trans` where it is stored the other way.",
        matmul_kernel(32, 32, 32, other_k=64),
        (matmul_kernel(32, 32, 32),),
    ),
    Family(
        "dot-minimum-extent",
        r"Input shapes should have M >= \d+, N >= \d+ and K >= \d+",
        ("dot",),
        "call `tl.dot` with an inner extent below 16.",
        "Use blocks of at least 16 in every extent and mask the rest with zeros, or multiply and sum with `tl.sum`.",
        matmul_kernel(32, 32, 8),
        (matmul_kernel(32, 32, 16),),
    ),
    Family(
        "dot-dtypes",
        r"Both operands must be same dtype",
        ("dot",),
        "call `tl.dot` with operands of different types.",
        "Cast one operand to the type of the other with `.to(...)`.",
        matmul_kernel(32, 32, 32, dtypes=("fp16", "fp32")),
        (matmul_kernel(32, 32, 32),),
    ),
    Family(
        "dot-ranks",
        r"input and other must have equal ranks|Both inputs must be either 2D or 3D",
        ("dot",),
        "call `tl.dot` on blocks that are not two-dimensional.",
        "Multiply and reduce with `tl.sum`, or give the blocks two dimensions.",
        _one("result = x + tl.dot(x, x)"),
        (_one("result = x + tl.sum(x * x, axis=0)"),),
    ),
)
_TYPES = (
    Family(
        "loop-carried-type",
        r"Loop-carried variable \w+ has initial type",
        (),
        "change the type or the shape of a variable inside a loop.",
        "Give it its final type before the loop, for example `tl.zeros((BLOCK,), dtype=tl.float32)`, and cast what is assigned.",
        _one("total = 0", "for step in range(n):", "    total += 1.5", "result = x + total"),
        (_one("total = 0.0", "for step in range(n):", "    total += 1.5", "result = x + total"),),
    ),
    Family(
        "branch-type",
        r"initial value for `\w+` is of type|Mismatched type for \w+ between then block|inconsistent types",
        (),
        "give a variable different types in the branches of an `if`.",
        "Give it the same type and shape on both paths, or choose values with `tl.where`.",
        _one("extra = 0", "if n > 3:", "    extra = 1.5", "result = x + extra"),
        (_one("extra = 0.0", "if n > 3:", "    extra = 1.5", "result = x + extra"),),
    ),
    Family(
        "condition-on-block",
        r"Boolean value of Tensor with more than one value is ambiguous|op operand #0 must be 1-bit signless integer, but got 'tensor<",
        (),
        "branch or loop on a block of more than one element.",
        "Choose element by element with `tl.where`, or reduce the condition to a scalar first.",
        _one("result = x", "if x > 0:", "    result = -x"),
        (_one("result = tl.where(x > 0, -x, x)"),),
    ),
    Family(
        "index-block",
        r"unsupported tensor index",
        (),
        "index or slice the elements of a block.",
        "Load what is needed with a pointer of its own, or mask and reduce: `tl.sum(tl.where(index == i, x, 0.0), axis=0)`.",
        _one("result = x + x[0]"),
        (_one("result = x + tl.sum(tl.where(tl.arange(0, BLOCK) == 0, x, 0.0), axis=0)"),),
    ),
    Family(
        "assign-element",
        r"__setitem__ is not supported in triton",
        (),
        "assign to elements of a block.",
        "Make a new block with `tl.where`.",
        _one("x[0] = 1.0", "result = x"),
        (_one("result = tl.where(tl.arange(0, BLOCK) == 0, 1.0, x)"),),
    ),
    Family(
        "convert-block",
        r"(?:float|int)\(\) argument must be a string",
        ("builtins.float", "builtins.int"),
        "convert a block with Python's `float` or `int`.",
        "Use `x.to(tl.float32)` or `x.to(tl.int32)`.",
        _one("result = float(x)"),
        (_one("result = x.to(tl.float32)"),),
    ),
    Family(
        "length-of-block",
        r"object of type 'tensor' has no len\(\)",
        ("builtins.len",),
        "take the `len` of a block.",
        "Use the `tl.constexpr` that gave the block its shape.",
        _one("result = x + len(x)"),
        (_one("result = x + BLOCK"),),
    ),
    Family(
        "math-on-integers",
        r"Expected dtype \[.*\] but got u?int\d+",
        (),
        "apply a floating point function of `triton.language` to integers.",
        "Cast first: `x.to(tl.float32)`.",
        _one("result = tl.exp(offsets)"),
        (_one("result = tl.exp(offsets.to(tl.float32))"),),
    ),
    Family(
        "floor-division",
        r"unexpected type (?:fp|bf)\d+",
        (),
        "use `//` on floating point blocks.",
        "Use `tl.floor(x / y)`.",
        _one("result = x // 2.0"),
        (_one("result = tl.floor(x / 2.0)"),),
    ),
    Family(
        "torch-dtype",
        r"'torch\.dtype' object has no attribute",
        (),
        "cast to a torch dtype inside a Triton kernel.",
        "Use Triton's own, for example `tl.float16`.",
        block_kernel(["result = x.to(torch.float16)"], imports=("import torch",)),
        (_one("result = x.to(tl.float16)"),),
    ),
)
_POINTERS = (
    Family(
        "load-from-value",
        r"Unsupported ptr type .* in `tl\.(?:load|store)`|Unsupported ptr type",
        ("load", "store", "atomic_add"),
        "load from or store to something that is not a pointer.",
        "Add the offsets to a pointer argument: `tl.load(x_ptr + offsets, mask=mask)`.",
        _one("result = tl.load(x)"),
        (_one("result = tl.load(x_ptr + offsets, mask=mask)"),),
    ),
    Family(
        "value-wider-than-pointer",
        r"(?:Value|Mask|Other) argument cannot be block type if pointer argument is not a block",
        ("load", "store"),
        "use a block of values or a mask with a single pointer.",
        "Add `tl.arange` offsets to the pointer, or reduce the value to a scalar.",
        _one("result = x", "tl.store(result_ptr, x)"),
        (_one("result = x", "tl.store(result_ptr, tl.sum(x, axis=0))"),),
    ),
    Family(
        "pointer-shape",
        r"Expected (?:pointer|mask|value|other) argument to have shape",
        ("load", "store"),
        "load or store with a pointer, a mask and a value of different shapes.",
        "Build all of them from the same offsets.",
        _one("result = x", "tl.store(result_ptr + offsets, x[:, None] + x[None, :])"),
        (_one("result = x + x"),),
    ),
    Family(
        "other-without-mask",
        r"`other` cannot be provided without `mask`",
        ("load",),
        "give `tl.load` an `other` without a `mask`.",
        "Give both or neither.",
        _one("result = tl.load(x_ptr + offsets, other=0.0)"),
        (_one("result = tl.load(x_ptr + offsets, mask=mask, other=0.0)"),),
    ),
    Family(
        "block-pointer-mask",
        r"`mask` and `other` arguments cannot be specified for loading block pointers",
        ("load", "make_block_ptr"),
        "give `tl.load` a mask when it loads through a block pointer.",
        "Use `boundary_check=(0,)` and `padding_option`, or plain pointers with a mask.",
        _one(
            "window = tl.make_block_ptr(x_ptr, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))",
            "result = tl.load(window, mask=mask)",
        ),
        (
            _one(
                "window = tl.make_block_ptr(x_ptr, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))",
                "result = tl.load(window, boundary_check=(0,))",
            ),
            _one("result = tl.load(x_ptr + offsets, mask=mask)"),
        ),
    ),
    Family(
        "pointer-as-value",
        r"cannot cast pointer<|cannot add pointers together",
        (),
        "compute with a pointer as if it were its value.",
        "Load the values first with `tl.load`.",
        _one("result = x_ptr.to(tl.float32)"),
        (_one("result = x.to(tl.float32)"),),
    ),
    Family(
        "global-variable",
        r"Cannot access global variable \w+ from within @jit",
        (),
        "read a global variable in a Triton kernel unless it is a `tl.constexpr`.",
        "Pass it as a `tl.constexpr` parameter, or define it as `NAME = tl.constexpr(value)`.",
        _one("result = x + SCALE", before=("SCALE = 3",)),
        (_one("result = x + SCALE", before=("SCALE = tl.constexpr(3)",)),),
    ),
)
_CALLS = (
    Family(
        "loop-bounds",
        r"For loop bounds and step must all be ints|For (?:lower|upper) bound must be a scalar|For step must be a scalar",
        ("builtins.range", "range"),
        "loop over bounds that are not scalar integers.",
        "Pass the bound as an integer argument, or reduce the block to a scalar and cast it with `.to(tl.int32)`.",
        _one("result = x", "for step in range(0, x, 1):", "    result += 1.0"),
        (_one("result = x", "for step in range(0, n, 1):", "    result += 1.0"),),
    ),
    Family(
        "loop-iterable",
        r"Only `range` and `static_range` iterators|'(?:List|Tuple|Name|Attribute)' object has no attribute 'func'",
        (),
        "loop over anything but `range`, `tl.range` or `tl.static_range`.",
        "Use `tl.static_range` and choose by its index.",
        _one("result = x", "for factor in (1, 2):", "    result = result * factor"),
        (_one("result = x", "for factor in tl.static_range(1, 3):", "    result = result * factor"),),
    ),
    Family(
        "wrong-arguments",
        r"got an unexpected keyword argument|missing \d+ required (?:positional|keyword)|takes \d+ positional arguments? but",
        (),
        "call a function in a Triton kernel with other arguments than it takes.",
        "Use the parameters of `triton.language`, not those of torch: `axis` and `keep_dims`, not `dim` and `keepdim`.",
        _one("result = tl.sum(x, dim=0)"),
        (_one("result = tl.sum(x, axis=0)"),),
    ),
    Family(
        "operand-types",
        r"invalid operands of type",
        (),
        "combine operands whose types an operator does not take.",
        "Cast first: bitwise operators and pointer offsets need integers, arithmetic needs values and not pointers.",
        _one("result = x & 1"),
        (_one("result = x.to(tl.int32) & 1"),),
    ),
)
FAMILIES = (*_SIZES, *_PRODUCTS, *_TYPES, *_POINTERS, *_CALLS)


def refused_block(found: Diagnosis) -> Lesson | None:
    """Return the lesson of the first family that fits what the compiler said."""
    family = next((family for family in FAMILIES if family.applies(found)), None)
    if family is None:
        return None
    return Lesson(
        signature=found.signature(family.signature),
        rule=f"You cannot {family.rule}",
        instead=family.instead,
        scope=found.scope,
        reproducer=family.reproducer,
        repairs=family.repairs,
    )
