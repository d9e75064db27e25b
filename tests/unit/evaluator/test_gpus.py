"""GPUs as the driver lists them, and which of them are served."""

import stat

import pytest
from adaexplore_evaluator.gpus import Gpu, GpuChoiceError, chosen, list_gpus

H200, A100 = Gpu(0, "GPU-a", "NVIDIA H200", 143771 * 2**20, "sm_90"), Gpu(1, "GPU-b", "NVIDIA A100", 81920 * 2**20, "sm_80")


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A stand-in for the driver's tool that prints a text and ends with a code."""

    def installed(text, code=0):
        program = tmp_path / "nvidia-smi"
        (tmp_path / "text").write_text(text)
        program.write_text(f"#!/bin/sh\ncat {tmp_path / 'text'}\nexit {code}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return installed


def test_every_line_of_the_driver_is_a_gpu(driver):
    driver("0, GPU-a, NVIDIA H200, 143771, 9.0\n1, GPU-b, NVIDIA A100, 81920, 8.0\n")
    assert list_gpus() == (H200, A100)


@pytest.mark.parametrize(("text", "code"), [("No devices were found\n", 0), ("NVIDIA-SMI has failed\n", 9), ("", 0)])
def test_a_host_whose_driver_finds_nothing_has_no_gpu(driver, text, code):
    driver(text, code)
    assert list_gpus() == ()


def test_a_host_without_a_driver_has_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list_gpus() == ()


@pytest.mark.parametrize(("choice", "served"), [("auto", (H200, A100)), ("none", ()), ("1", (A100,)), ("1,0,1", (A100, H200))])
def test_a_setting_chooses_what_is_served(choice, served):
    assert chosen(choice, (H200, A100)) == served


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(GpuChoiceError, match="no GPU 7; this host has 0, 1"):
        chosen("0,7", (H200, A100))
