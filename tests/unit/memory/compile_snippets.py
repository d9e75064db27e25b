"""Compiles kernels for sm_90 in a process of its own: JSON lists of snippets on stdin, JSON verdicts on stdout.

A list is tried in order until one compiles; each snippet that was tried has a verdict.
"""

import ast
import importlib.util
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

SHARED_LIMIT_BYTES = 227 * 1024


def compile_snippet(snippet, folder, index):
    path = Path(folder) / f"snippet{index}.py"
    path.write_text(snippet["source"])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, snippet["function_name"])
    constants = {name: ast.literal_eval(text) for name, text in snippet["constexprs"].items()}
    signature = {name: "constexpr" if name in constants else snippet["signature"][name] for name in function.arg_names}
    options = {key: snippet[key] for key in ("num_warps", "num_stages") if snippet[key]}
    places = {(function.arg_names.index(name),): value for name, value in constants.items()}
    kernel = triton.compile(ASTSource(function, signature, places), target=GPUTarget("cuda", 90, 32), options=options)
    if kernel.metadata.shared > SHARED_LIMIT_BYTES:
        return {"compiled": False, "exception_type": "OutOfResources", "detail": "out of resource: shared memory"}
    return {"compiled": True, "exception_type": "", "detail": ""}


def innermost(error):
    while (error.__cause__ or error.__context__) is not None:
        error = error.__cause__ or error.__context__
    return error


def verdict_on(snippet, folder, index):
    try:
        return compile_snippet(snippet, folder, index)
    except Exception as error:
        cause = innermost(error)
        return {"compiled": False, "exception_type": type(cause).__name__, "detail": str(cause) or str(error)}


def main():
    warnings.simplefilter("ignore")
    lists, index, verdicts = json.load(sys.stdin), 0, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        for snippets in lists:
            tried = []
            for snippet in snippets:
                index += 1
                tried.append(verdict_on(snippet, folder, index))
                if tried[-1]["compiled"]:
                    break
            verdicts.append(tried)
    json.dump({"triton": triton.__version__, "verdicts": verdicts}, sys.stdout)


if __name__ == "__main__":
    main()
