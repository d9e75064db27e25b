"""`adaexplore rules verify` proves and retires by the real compiler."""

import json

KERNEL = """import triton
import triton.language as tl
{imports}

@triton.jit
def kernel(x_ptr, y_ptr):
    offsets = tl.arange(0, 128)
    tl.store(y_ptr + offsets, {expression})
"""


def snippet(expression, imports=""):
    source = KERNEL.format(imports=imports, expression=expression)
    return {"source": source, "function_name": "kernel", "signature": {"x_ptr": "*fp32", "y_ptr": "*fp32"}}


def test_rules_are_proven_or_retired_by_the_compiler(adaexplore, evaluator_address, tmp_path):
    missing, good = snippet("tl.no_such_function(tl.load(x_ptr + offsets))"), snippet("tl.exp(tl.load(x_ptr + offsets))")
    rules = [
        {"rule": "You cannot use `tl.no_such_function`.", "evidence": {"reproducer": missing, "repairs": [good]}},
        {"rule": "You cannot use `tl.exp2`-like functions.", "evidence": {"reproducer": good, "repairs": [missing]}},
    ]
    file = tmp_path / "rules.jsonl"
    file.write_text("".join(json.dumps(rule | {"kind": "SKILL_KIND_PITFALL"}) + "\n" for rule in rules))
    state, environ = ("--state-dir", tmp_path / "state"), {"ADAEXPLORE_ADDRESS_EVALUATOR": evaluator_address}
    assert adaexplore("rules", "import", file, "--json", *state).json["imported"] == 2
    found = adaexplore("rules", "verify", "--json", *state, environ=environ).json["results"]
    assert {row["rule"]: (row["shown"], row["state"]) for row in found} == {
        rules[0]["rule"]: ("REPAIRED", "ACTIVE"),
        rules[1]["rule"]: ("REFUTED", "RETIRED"),
    }
    listed = {rule["rule"]: rule for rule in adaexplore("rules", "list", "--json", *state).json["rules"]}
    assert "its reproducer compiles on Triton" in listed[rules[1]["rule"]]["retire_reason"]
