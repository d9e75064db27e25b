import pytest
from adaexplore_evaluator.groups import usable_groups

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def judge(adaexplore, evaluator_address):
    def run(*words):
        return adaexplore("evaluate", *words, environ={"ADAEXPLORE_ADDRESS_EVALUATOR": evaluator_address})

    return run


def test_a_right_kernel_passes_and_the_estimate_is_labelled(judge, task_file, kernel_file):
    done = judge(task_file, kernel_file, "--json")
    assert done.code == 0, done.out + done.err
    answer = done.json
    assert (answer["verdict"], answer["cause"], answer["device"]) == ("PASSED", None, "CPU")
    assert answer["timing"]["status"] == "ESTIMATED"
    assert answer["timing"]["median_us"] > 0
    assert answer["timing"]["speedup_over_eager"] > 1
    assert "PASSED" in judge(task_file, kernel_file).out


def test_a_wrong_kernel_fails_with_place_and_both_values(judge, task_file, kernel_file):
    kernel_file.write_text(kernel_file.read_text().replace("0.044715", "0.055715"))
    done = judge(task_file, kernel_file, "--json")
    assert done.code == 4
    answer = done.json
    assert (answer["verdict"], answer["cause"]) == ("FAILED", "NUMERIC")
    assert "[" in answer["message"]
    assert answer["timing"]["status"] == "NOT_RUN"
    assert answer["timing"]["median_us"] is None


TASKS = {
    "not_python": ("def broken(:\n", "task.py", 1),
    "no_model": (MODEL.replace("class Model(", "class Other("), "Model", None),
    "no_get_inputs": (MODEL.replace("def get_inputs", "def other_inputs"), "get_inputs", None),
    "crashes_at_import": ("import torch\n1 / 0\n" + MODEL, "ZeroDivisionError", 2),
    "crashes_in_forward": (MODEL.replace("torch.relu(x) + 1", "x.no_such_method()"), "no_such_method", 8),
    "returns_no_tensor": (MODEL.replace("torch.relu(x) + 1", "'text'"), "tensor", None),
    "random": (MODEL.replace("torch.relu(x) + 1", "x + torch.rand_like(x)"), "same inputs", None),
    "out_of_memory": (MODEL.replace("torch.relu(x) + 1", "torch.ones(1 << 42).sum() + x"), "GiB of memory; make its inputs smaller", 8),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_that_cannot_judge_is_named_in_one_line(judge, tmp_path, kernel_file, name):
    source, word, line = TASKS[name]
    task = tmp_path / "task.py"
    task.write_text(source)
    done = judge(task, kernel_file, "--json")
    assert done.code == 3, done.out + done.err
    answer = done.json
    assert answer["verdict"] == "TASK_INVALID"
    assert word in answer["message"]
    assert "\n" not in answer["message"]
    assert line is None or answer["line"] == line
    assert "Traceback" not in done.err + judge(task, kernel_file).err


HEAD = "import os, sys, time, torch\nfrom torch import nn\n"
CLASS = "class ModelNew(nn.Module):\n    def forward(self, x):\n        {}\n"
KERNELS = {
    "defines_nothing": (HEAD, "FAILED", "CONTRACT", 4),
    "is_not_python": ("class ModelNew(:\n", "FAILED", "SYNTAX", 4),
    "exits_at_import": (HEAD + "sys.exit(0)\n", "FAILED", None, 4),
    "exits_hard": (HEAD + CLASS.format("os._exit(0)"), None, None, 4),
    "raises": (HEAD + CLASS.format("raise ValueError('no')"), "FAILED", "RUNTIME", 4),
    "prints_much_and_is_wrong": (HEAD + CLASS.format("print('x' * 10_000_000); return x"), "FAILED", "CONTRACT", 4),
    "forks_and_is_right": (HEAD + CLASS.format("os.fork() or time.sleep(600); return torch.relu(x) + 1"), "REJECTED", "HIDDEN_WORK", 4),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_file_that_misbehaves_gets_a_typed_verdict(judge, tmp_path, name):
    source, verdict, cause, code = KERNELS[name]
    task, kernel = tmp_path / "task.py", tmp_path / "kernel.py"
    task.write_text(MODEL)
    kernel.write_text(source)
    done = judge(task, kernel, "--json")
    answer = done.json
    assert answer["verdict"] in ("PASSED", "FAILED", "REJECTED")
    assert verdict is None or answer["verdict"] == verdict
    assert cause is None or answer["cause"] == cause
    assert code is None or done.code == code
    assert answer["verdict"] == "PASSED" or answer["message"]


def test_a_missing_file_and_a_folder_are_one_line_each(judge, tmp_path, kernel_file):
    for path in (tmp_path / "none.py", tmp_path):
        done = judge(path, kernel_file)
        assert done.code == 2
        assert str(path) in done.err
        assert done.err.count("\n") == 1


def test_an_unreachable_evaluator_is_one_line(adaexplore, task_file, kernel_file):
    done = adaexplore("evaluate", task_file, kernel_file, environ={"ADAEXPLORE_ADDRESS_EVALUATOR": "127.0.0.1:9"})
    assert done.code == 1
    assert "127.0.0.1:9" in done.err
    assert done.err.count("\n") == 1


def test_the_doctor_tells_how_candidates_are_held(adaexplore, evaluator_address):
    facts = adaexplore("doctor", "--json", environ={"ADAEXPLORE_ADDRESS_EVALUATOR": evaluator_address}).json
    assert facts["sandbox_level"].startswith(("namespaces", "process"))
    assert facts["process_limit"].startswith("kernel" if usable_groups() else "monitor")


def test_a_profile_says_what_the_kernel_does_with_the_device(adaexplore, evaluator_address, task_file, kernel_file):
    environ = {"ADAEXPLORE_ADDRESS_EVALUATOR": evaluator_address}
    done = adaexplore("profile", task_file, kernel_file, "--json", environ=environ)
    assert done.code == 0, done.out + done.err
    told = done.json["profile"]
    assert told["roofline_share"] > 0
    assert told["counter_status"] == "NOT_ON_DEVICE"
    assert done.json["launches"][0]["registers"] > 0
    words = adaexplore("profile", task_file, kernel_file, environ=environ)
    assert told["text"] in words.out
    kernel_file.write_text(kernel_file.read_text().replace("0.044715", "0.055715"))
    wrong = adaexplore("profile", task_file, kernel_file, "--json", environ=environ)
    assert (wrong.code, wrong.json["verdict"], wrong.json["profile"]) == (4, "FAILED", None)
