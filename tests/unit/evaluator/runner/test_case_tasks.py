"""Case-based task files: how they are recognised, what their tests give, and how keyword arguments travel."""

import pytest
import torch
from adaexplore_evaluator.runner.arguments import call_with, positional, split_arguments
from adaexplore_evaluator.runner.contract import quantisation_contract
from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.tasks import read_task, run_task
from adaexplore_evaluator.runner.virtual_cuda import CpuOnlyMode

SEPARATOR = "#" * 146

TASK = f"""
import torch

def helper(x):
    return x + 1

def shifted(x, by=1, *, out=None):
    x += by
    return x

{SEPARATOR}

import torch
from data_utils import rand_tensor

def test_shifted():
    results = {{}}
    x = torch.zeros(3, device="cuda")
    results["fresh"] = shifted(x)
    results["changed_before"] = shifted(x, by=2)
    first = shifted(torch.ones(2, device="cuda"))
    second = shifted(torch.ones(1, device="cuda"), 5)
    results["second"], results["first"] = second, first
    results["sum"] = float(shifted(torch.ones(4, device="cuda")).sum())
    results["random"] = [shifted(rand_tensor((40, 5), mode=mode)) for mode in ("standard", "outlier")]
    try:
        shifted("nothing", by=[])
    except TypeError:
        pass
    return results

test_results = test_shifted()
"""


def load(tmp_path, source, task_format=""):
    path = tmp_path / "task.py"
    path.write_text(source)
    file = read_task(path, task_format)
    with CpuOnlyMode():
        return run_task(file, file.tree, "adaexplore_task")


def cases_of(program, seed=0):
    with CpuOnlyMode():
        return {case.name: case.inputs for case in program.cases(seed)}


def test_each_call_is_a_case_under_the_name_of_its_result(tmp_path):
    program = load(tmp_path, TASK)
    assert (program.file.reference, program.file.test, program.file.has_inputs) == ("shifted", "test_shifted", False)
    found = cases_of(program)
    assert list(found) == ["fresh", "changed_before", "first", "second", "sum", "random[0]", "random[1]"]
    assert found["changed_before"]["kwargs"] == {"by": 2}
    assert found["second"]["args"][1] == 5


def test_arguments_are_those_from_before_the_call(tmp_path):
    found = cases_of(load(tmp_path, TASK))
    assert found["fresh"]["args"][0].tolist() == [0, 0, 0]
    assert found["changed_before"]["args"][0].tolist() == [1, 1, 1]


def test_seeds_decide_what_is_random_and_nothing_else(tmp_path):
    program = load(tmp_path, TASK)
    first, same, other = cases_of(program, 1), cases_of(program, 1), cases_of(program, 2)
    assert torch.equal(first["random[1]"]["args"][0], same["random[1]"]["args"][0])
    assert not torch.equal(first["random[1]"]["args"][0], other["random[1]"]["args"][0])
    assert torch.equal(first["sum"]["args"][0], other["sum"]["args"][0])


def test_the_largest_case_is_the_one_that_is_timed(tmp_path):
    program = load(tmp_path, TASK)
    with CpuOnlyMode():
        assert program.inputs(0)["args"][0].shape == (40, 5)


def test_inputs_of_its_own_maker_are_timed_where_there_are_any(tmp_path):
    program = load(tmp_path, TASK + "\ndef get_inputs():\n    return [torch.zeros(7)]\n")
    assert program.inputs(0)[0].shape == (7,)
    assert len(cases_of(program)) == 7


def test_a_file_may_import_itself_by_the_name_of_its_reference(tmp_path):
    source = TASK.replace("from data_utils", "from shifted import shifted\nfrom data_utils")
    assert "fresh" in cases_of(load(tmp_path, source))


def test_a_test_of_another_name_belongs_to_what_stands_above_the_separator(tmp_path):
    program = load(tmp_path, TASK.replace("test_shifted", "test_it"))
    assert program.file.reference == "shifted"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (f"def f(x):\n    return x\n{SEPARATOR}\ndef test_f():\n    return {{}}\n", "never calls f"),
        (f"import torch\ndef f(x):\n    return x\n{SEPARATOR}\ndef test_f():\n    return {{'a': f(torch.Generator())}}\n", "Generator"),
        ("def f(x):\n    return x\ndef test_g():\n    return {}\ndef test_h():\n    return {}\n", "test_g, test_h"),
    ],
)
def test_a_test_that_tells_nothing_is_refused_with_the_reason(tmp_path, source, says):
    with pytest.raises(ContractError, match=says):
        cases_of(load(tmp_path, source))


def test_keyword_arguments_keep_their_names():
    value = {"args": [1], "kwargs": {"b": 2}}
    assert call_with(lambda a, *, b: (a, b), value) == (1, 2)
    call, values, names = positional(lambda a, *, b: (a, b), value, ["a", "b"])
    assert (call(*values), names) == ((1, 2), ["a", "b"])
    assert split_arguments((3, 4)) == ([3, 4], {})


@pytest.mark.parametrize("value", [None, {"args": [1]}, {"args": 1, "kwargs": {}}, {"args": [], "kwargs": {}, "more": 1}])
def test_anything_else_is_no_argument_list(value):
    with pytest.raises(ContractError, match="arguments must be"):
        split_arguments(value)


def test_a_contract_is_read_from_the_docstring(tmp_path):
    source = f'''
def product_w4a16(a, b):
    """Product.

    - Input (activations): as they are.
    - Weight: int4.
    * Scale: per-output-channel, or group-wise (group_size=32 along K).

    Accuracy requirement: cosine_sim >= 0.90, l1_relative <= 0.10, rmse <= 0.15.
    """
    return a @ b

{SEPARATOR}

def test_product_w4a16():
    return {{}}
'''
    contract = quantisation_contract(load(tmp_path, source).file)
    assert (contract["cosine"], contract["relative_l1"], contract["rmse"]) == (0.90, 0.10, 0.15)
    assert (contract["weight_bits"], contract["activation_bits"], contract["group"]) == (4, 16, 32)
    assert contract["weight_scales"] == ["output_channel", "group"]
    assert contract["activation_scales"] == []


def test_a_docstring_without_all_bounds_is_no_contract(tmp_path):
    assert quantisation_contract(load(tmp_path, TASK).file) is None
