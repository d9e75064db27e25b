"""Answers to a request for edits that were thought up one by one to invite a wrong edit, each with what must come of it."""

from __future__ import annotations

from benchmarks.edit_material import Answer, Kernel

SOURCE = '''import torch
import triton
import triton.language as tl

SIZE = 128


def _unused(x):
    return x


@triton.jit
def first(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Adds one.

    Usage
    =======
    first[grid](x, out, n)
    """
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = x + 1.0
    tl.store(out_ptr + offs, y, mask=mask)


@triton.jit
def second(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    if BLOCK > 64:
        x = x * 2.0
    y = x - 1.0  # minus
    tl.store(out_ptr + offs, y, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, SIZE),)
        first[grid](
            x,
            out,
            n,
            BLOCK=SIZE,
            num_warps=4,
        )
        second[grid](out, out, n, BLOCK=SIZE)
        return out[..., :] * self.scale
'''


def edit(search: str, new: str) -> str:
    """Return a search/replace block."""
    return f"<<<<<<< SEARCH\n{search}\n=======\n{new}\n>>>>>>> REPLACE\n"


def diff(*lines: str) -> str:
    """Return a diff in its fence."""
    return "```diff\n" + "\n".join(lines) + "\n```\n"


def fenced(code: str) -> str:
    """Return a block of Python."""
    return f"```python\n{code}\n```\n"


def with_(*pairs: tuple[str, str]) -> str:
    """Return the kernel with pieces of it replaced, each of which stands there once."""
    source = SOURCE
    for old, new in pairs:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


PLUS = ("    y = x + 1.0\n", "    y = x + 2.0\n")
MINUS = ("    y = x - 1.0  # minus\n", "    y = x - 2.0\n")
EDIT = edit("    y = x + 1.0", "    y = x + 2.0")
DIFF = diff("@@ @@", "-    y = x + 1.0", "+    y = x + 2.0")
THIRD = "@triton.jit\ndef third(x):\n    return x"
DOUBLED = SOURCE.replace("2.0", "4.0")
FORWARD = SOURCE[SOURCE.index("    def forward") :]
SECOND = SOURCE[SOURCE.index("@triton.jit\ndef second") : SOURCE.index("\n\nclass")]
SECOND_DOUBLED = SECOND.replace("2.0", "4.0")
MODEL = SOURCE[SOURCE.index("class ModelNew") :]
OLDER = SOURCE[SOURCE.index("    offs =") : SOURCE.index("    tl.store")].rstrip().replace("offs", "cols")
HEAD = "def second(x_ptr, out_ptr, n, BLOCK: tl.constexpr):"

APPLIED = [
    (
        "a block and a diff of the same change",
        EDIT + DIFF,
        with_(PLUS),
    ),
    (
        "a block and a diff of two changes",
        EDIT + diff("@@ @@", "-    y = x - 1.0", "+    y = x - 2.0"),
        with_(PLUS, MINUS),
    ),
    (
        "edits and the function that they lead to",
        edit("        x = x * 2.0", "        x = x * 4.0") + "So:\n" + fenced(SECOND_DOUBLED),
        with_(("x * 2.0", "x * 4.0")),
    ),
    (
        "a fence that ends before the last marker",
        "```python\n" + EDIT.replace(">>>>>>>", "```\n>>>>>>>"),
        with_(PLUS),
    ),
    (
        "a fence in place of the last marker",
        "```python\n" + EDIT.replace(">>>>>>> REPLACE", "```"),
        with_(PLUS),
    ),
    ("a part of a line that stands once", edit("num_warps=4", "num_warps=8"), with_(("num_warps=4", "num_warps=8"))),
    (
        "a call that is written on one line in the edit",
        edit("first[grid](x, out, n, BLOCK=SIZE, num_warps=4)", "first[grid](x, out, n, BLOCK=SIZE, num_warps=2)"),
        with_(("num_warps=4", "num_warps=2")),
    ),
    (
        "the first line of two without its indentation",
        edit("if BLOCK > 64:\n        x = x * 2.0", "if BLOCK > 32:\n        x = x * 2.0"),
        with_(("BLOCK > 64", "BLOCK > 32")),
    ),
    (
        "a twin that a following line tells apart",
        edit(
            "    x = tl.load(x_ptr + offs, mask=mask)\n    y = x + 1.0",
            "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)\n    y = x + 1.0",
        ),
        with_(("mask=mask)\n    y = x + 1.0", "mask=mask, other=0.0)\n    y = x + 1.0")),
    ),
    (
        "a hunk that its heading tells apart",
        diff("@@ def second(x_ptr, out_ptr, n, BLOCK):", "     mask = offs < n", "+    tl.debug_barrier()"),
        SOURCE[: SOURCE.index(HEAD)]
        + SOURCE[SOURCE.index(HEAD) :].replace("    mask = offs < n\n", "    mask = offs < n\n    tl.debug_barrier()\n"),
    ),
    ("the same edit twice", EDIT * 2, with_(PLUS)),
    (
        "two edits that share the line between them",
        edit("    x = tl.load(x_ptr + offs, mask=mask)\n    y = x + 1.0", "    x = tl.load(x_ptr + offs)\n    y = x + 1.0")
        + edit("    y = x + 1.0\n    tl.store(out_ptr + offs, y, mask=mask)", "    y = x + 1.0\n    tl.store(out_ptr + offs, y)"),
        with_(
            (
                ", mask=mask)\n    y = x + 1.0\n    tl.store(out_ptr + offs, y, mask=mask)",
                ")\n    y = x + 1.0\n    tl.store(out_ptr + offs, y)",
            )
        ),
    ),
    ("a method on its own", fenced(FORWARD.replace("SIZE),", "64),").replace("\n    ", "\n").strip()), with_(("SIZE),", "64),"))),
    (
        "a function on its own with an import that is new",
        fenced("import math\n\n" + SECOND.replace("2.0", "math.pi")),
        with_(("x * 2.0", "x * math.pi"), ("as tl\n", "as tl\nimport math\n")),
    ),
    (
        "a function beside the old one for comparison",
        "Before:\n" + fenced(SECOND) + "After:\n" + fenced(SECOND_DOUBLED),
        with_(("x * 2.0", "x * 4.0")),
    ),
    (
        "a whole file in an edit without SEARCH part",
        edit("", DOUBLED.replace("    =======\n", "")),
        with_(("x * 2.0", "x * 4.0"), ("    =======\n", "")),
    ),
    (
        "a hunk whose context has no blank before it",
        diff("@@ -1 +1 @@", "    if BLOCK > 64:", "-        x = x * 2.0", "+        x = x * 4.0"),
        with_(("x * 2.0", "x * 4.0")),
    ),
    (
        "a hunk with a blank after each mark",
        diff("@@ -30,2 +30,2 @@", "-         x = x * 2.0", "+         x = x * 4.0"),
        with_(("x * 2.0", "x * 4.0")),
    ),
    ("a comment that the answer dropped", edit("    y = x - 1.0", "    y = x - 2.0"), with_(MINUS)),
    (
        "an index with an ellipsis in new code",
        edit("        return out[..., :] * self.scale", "        return out[..., None] * self.scale"),
        with_(("[..., :]", "[..., None]")),
    ),
    (
        "an elision that stands for the same lines in both parts",
        edit("    if BLOCK > 64:\n    ...\n    y = x - 1.0", "    if BLOCK > 32:\n    ...\n    y = x - 2.0"),
        with_(("BLOCK > 64", "BLOCK > 32"), MINUS),
    ),
    (
        "new lines before a function with its decorator",
        edit(f"@triton.jit\n{HEAD}", f"@triton.jit\ndef third(x):\n    return x\n\n\n@triton.jit\n{HEAD}"),
        with_((f"@triton.jit\n{HEAD}", f"@triton.jit\ndef third(x):\n    return x\n\n\n@triton.jit\n{HEAD}")),
    ),
    (
        "a whole file after thoughts about edits",
        "<think>" + edit("    y = x + 1.0", "    y = 0") + "</think>" + fenced(DOUBLED),
        with_(("x * 2.0", "x * 4.0")),
    ),
    (
        "an apply-patch envelope",
        "*** Begin Patch\n*** Update File: kernel.py\n@@ def first(\n-    y = x + 1.0\n+    y = x + 2.0\n*** End Patch\n",
        with_(PLUS),
    ),
    ("windows line ends and a file name", "kernel.py\r\n" + EDIT.replace("\n", "\r\n"), with_(PLUS)),
]

REFUSED = [
    ("a hunk at a line without end", diff("@@ -" + "9" * 5_000 + " +1 @@", "-    mask = offs < n", "+    mask = offs <= n")),
    ("a file that parses and does not compile", fenced(DOUBLED.replace("    y = x + 1.0", "    nonlocal y"))),
    ("an opening tag in words", "<old> is the version before.\nI would not change it."),
    (
        "edits and a new function beside them",
        edit("    y = x + 1.0", "    y = third(x)") + "with\n" + fenced(THIRD),
    ),
    (
        "a block and a diff of the same line that disagree",
        EDIT + diff("@@ @@", "-    y = x + 1.0", "+    y = x"),
    ),
    ("a comment of one twin in front of another", edit("    # second\n    x = x * 4.0", "    x = x * 5.0")),
    ("a twin that nothing tells apart", edit("    mask = offs < n", "    mask = offs < n - 1")),
    ("a twin with another comment", edit("    mask = offs < n  # tail", "    mask = offs < n - 1")),
    ("a twin in a diff whose number is off by one", diff("@@ -22,1 +22,1 @@", "-    mask = offs < n", "+    mask = offs <= n")),
    ("a twin in a diff without numbers", diff("@@ @@", "     mask = offs < n", "+    tl.debug_barrier()")),
    (
        "a twin under a heading of a function that does not exist",
        diff("@@ def third():", "     mask = offs < n", "+    tl.debug_barrier()"),
    ),
    ("a twin whose heading and number disagree", diff("@@ -21,1 +21,2 @@ def second(", "     mask = offs < n", "+    tl.debug_barrier()")),
    (
        "two answers to the same lines",
        EDIT + "Wait, better:\n" + edit("    y = x + 1.0", "    y = x + 3.0"),
    ),
    (
        "a second thought that changes another line of the same block",
        edit("    y = x + 1.0\n    tl.store(out_ptr + offs, y, mask=mask)", "    y = x + 2.0\n    tl.store(out_ptr + offs, y, mask=mask)")
        + "No, rather:\n"
        + edit("    y = x + 1.0\n    tl.store(out_ptr + offs, y, mask=mask)", "    y = x + 1.0\n    tl.store(out_ptr + offs, y)"),
    ),
    (
        "edits and then another whole file",
        EDIT + "Scrap that:\n" + fenced(DOUBLED),
    ),
    ("a removed line of an older version", edit("    y = x + 0.5", "    y = x + 2.0")),
    ("a removed line with a typing error", edit("    y = x +- 1.0", "    y = x + 2.0")),
    (
        "a removed line of an older version among right ones",
        edit(
            "    x = tl.load(x_ptr + offs, mask=mask)\n    y = x + 0.5\n    tl.store(out_ptr + offs, y, mask=mask)",
            "    x = tl.load(x_ptr + offs, mask=mask)\n    y = x + 2.0\n    tl.store(out_ptr + offs, y, mask=mask)",
        ),
    ),
    ("a name of an older version in new code", edit(OLDER, OLDER.replace("x + 1.0", "x + cols"))),
    (
        "new code that leaves the rest out",
        edit("    y = x + 1.0\n    tl.store(out_ptr + offs, y, mask=mask)", "    y = x + 2.0\n    # ... rest of the kernel ..."),
    ),
    ("new code with an ellipsis for arguments", edit("    x = x * 2.0", "    x = tl.load(...) * 2.0")),
    ("a searched line with an ellipsis for arguments", edit("        second[grid](...)", "        second[grid](out, x, n, BLOCK=SIZE)")),
    (
        "lines left out of SEARCH only",
        edit("    if BLOCK > 64:\n    ...\n    tl.store(out_ptr + offs, y, mask=mask)", "    tl.store(out_ptr + offs, x, mask=mask)"),
    ),
    (
        "parts around left out lines in another order",
        edit("    y = x - 1.0\n    ...\n    y = x + 1.0", "    y = x - 2.0\n    ...\n    y = x + 2.0"),
    ),
    ("a whole file that leaves something out", fenced(SOURCE.replace("    y = x + 1.0\n", "    # ... existing code ...\n"))),
    ("a function that leaves something out", fenced(SECOND.replace("    y = x - 1.0  # minus\n", "    ...\n"))),
    ("a function without its decorator", fenced(SECOND.replace("@triton.jit\n", ""))),
    ("a class without one of its methods", fenced("class ModelNew(torch.nn.Module):\n" + FORWARD.replace("3.0", "4.0"))),
    (
        "a file without a kernel that it uses",
        fenced(
            "import torch\n\n\n" + MODEL.replace("    def __init__(self):\n        super().__init__()\n        self.scale = 3.0\n\n", "")
        ),
    ),
    ("a function that is defined twice in the answer", fenced(SECOND_DOUBLED) + fenced(SECOND.replace("2.0", "5.0"))),
    ("a function that the kernel does not have", fenced(THIRD)),
    ("statements of the top level in passing", fenced(SECOND_DOUBLED + "\n\n\nprint(ModelNew())")),
    ("a function in a block that is not closed", "```python\n" + SECOND_DOUBLED),
    ("a whole file in a block that is not closed", "```python\n" + DOUBLED),
    ("an edit without its end", EDIT + "<<<<<<< SEARCH\n    y = x - 1.0\n=======\n    y = x"),
    ("an edit without its divider", "<<<<<<< SEARCH\n    y = x + 1.0\n    y = x + 2.0\n>>>>>>> REPLACE\n"),
    (
        "an edit without its beginning",
        EDIT + "    y = x - 1.0\n=======\n    y = x\n>>>>>>> REPLACE\n",
    ),
    ("an edit with two dividers", "<<<<<<< SEARCH\n    y = x + 1.0\n=======\n    y = x + 2.0\n=======\n    y = x + 3.0\n>>>>>>> REPLACE\n"),
    (
        "tags of which the last pair is cut",
        "<old>\n    y = x + 1.0\n</old>\n<new>\n    y = x + 2.0\n</new>\n<old>\n    y = x - 1.0\n</old>\n<new>\n    y",
    ),
    ("a diff in a fence that is not closed", "```diff\n@@ @@\n-    y = x + 1.0\n+    y = x + 2.0\n"),
    ("a diff that only adds and says not where", diff("@@ -1,0 +1,1 @@", "+    y = x + 2.0")),
    (
        "a new function between another and its decorator",
        edit(
            "def second(x_ptr, out_ptr, n, BLOCK: tl.constexpr):",
            "def third(x):\n    return x\n\n\ndef second(x_ptr, out_ptr, n, BLOCK: tl.constexpr):",
        ),
    ),
    (
        "flattened lines of two depths with more in their place",
        edit("if BLOCK > 64:\nx = x * 2.0\ny = x - 1.0", "if BLOCK > 64:\nx = x * 2.0\nx = x + 1.0\ny = x - 1.0"),
    ),
    ("a part of a line inside a longer expression", edit("out[..., :]", "out + 1")),
    ("a part of a longer name", edit("program_i", "program_j")),
    ("a part of a line that stands twice", edit("BLOCK=SIZE", "BLOCK=64")),
    ("a part of a comment", edit("minus", "plus")),
    ("a cut first line", edit("    x = tl.load(x_ptr +", "    x = tl.load(x_ptr + 1 +")),
    (
        "a diff in which a line stands between the removed ones",
        diff(
            "@@ @@",
            "     if BLOCK > 64:",
            "-        x = x * 2.0",
            "-    tl.store(out_ptr + offs, y, mask=mask)",
            "+    tl.store(out_ptr + offs, x, mask=mask)",
        ),
    ),
    (
        "an insertion where the kernel has a line more",
        edit("    if BLOCK > 64:\n    y = x - 1.0", "    if BLOCK > 64:\n    x = x * 8.0\n    y = x - 1.0"),
    ),
    ("a markdown list that looks like a diff", "- use num_warps 8\n+ use num_stages 2\n"),
    ("an edit of another program", edit("def softmax(x):\n    return x.softmax(-1)", "def softmax(x):\n    return x.exp()")),
    ("an empty SEARCH part and a piece", edit("", "    y = x + 2.0")),
    ("a blank SEARCH part", edit("  \n\t", "    y = x + 2.0")),
    ("new code that is no Python, placed loosely", edit("   y = x + 1.0", "   y = (x + 1.0")),
    ("new code that closes less than the searched lines", edit("x = x * 2.0\n  y = x - 1.0", "x = x * 2.0\ny = x")),
    ("the markers in the wrong order", "<<<<<<< REPLACE\n    y = x + 2.0\n=======\n    y = x + 1.0\n>>>>>>> SEARCH\n"),
    ("an answer in JSON", '{"old_string": "    y = x + 1.0", "new_string": "    y = x + 2.0"}'),
    ("words on what to change", "Replace `y = x + 1.0` by `y = x + 2.0`."),
]


def answers() -> list[Answer]:
    """Return all of them."""
    kernel = Kernel("by hand", SOURCE, ())
    return [
        *(Answer("by hand, one meaning", text, kernel, truth) for _, text, truth in APPLIED),
        *(Answer("by hand, to be refused", text, kernel, None) for _, text in REFUSED),
    ]
