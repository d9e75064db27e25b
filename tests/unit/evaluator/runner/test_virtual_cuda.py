"""The virtual CUDA device."""

from __future__ import annotations

import pytest
import torch
from adaexplore_evaluator.runner.cuda_api import CudaApi
from adaexplore_evaluator.runner.triton_cpu import NotInterpretable, find_target
from adaexplore_evaluator.runner.virtual_cuda import refuse_cpu_pointers, virtual_cuda


@pytest.fixture
def device():
    with virtual_cuda(CudaApi(find_target("sm_90")), default_cpu=True):
        yield


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3, device="cuda"),
        lambda: torch.zeros(3, device=0),
        lambda: torch.tensor([1.0], device=torch.device("cuda:0")),
        lambda: torch.zeros(3).cuda(),
        lambda: torch.zeros(3).to("cuda"),
        lambda: torch.zeros(3).to("cuda", torch.float16),
        lambda: torch.zeros(3).to(device="cuda", dtype=torch.int32),
        lambda: torch.zeros(3).to(torch.ones(1, device="cuda")),
        lambda: torch.empty_like(torch.zeros(3, device="cuda")),
        lambda: torch.zeros(3, device="cuda").new_ones(4),
        lambda: torch.zeros(3, device="cuda")[1:].view(2, 1) + 1,
        lambda: torch.zeros(3, device="cuda") * torch.tensor(2.0),
        lambda: torch.randn(2, 2, device="cuda", dtype=torch.float16, pin_memory=False),
        lambda: torch.nn.Linear(3, 4).cuda().weight,
        lambda: torch.nn.Linear(3, 4, device="cuda").weight,
        lambda: torch.cat([torch.ones(1, device="cuda"), torch.ones(1, device="cuda")]),
    ],
)
def test_a_tensor_on_the_device_says_so(device, make):
    tensor = make()
    assert tensor.is_cuda
    assert not tensor.is_cpu
    assert tensor.device == torch.device("cuda", 0)
    assert tensor.get_device() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3),
        lambda: torch.zeros(3, device="cpu"),
        lambda: torch.zeros(3, device="cuda").cpu(),
        lambda: torch.zeros(3, device="cuda").to("cpu"),
        lambda: torch.zeros(3, device="cuda").to("cpu", torch.float64) + 1,
        lambda: torch.as_tensor([1, 2]),
    ],
)
def test_a_tensor_on_the_cpu_says_so(device, make):
    tensor = make()
    assert not tensor.is_cuda
    assert tensor.device.type == "cpu"


def test_both_sides_in_one_operator_are_refused_as_on_a_gpu(device):
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda") + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([torch.ones(3, device="cuda"), torch.ones(3)])
    target = torch.zeros(3, device="cuda")
    target.copy_(torch.ones(3))
    target[torch.tensor([0, 1])] = 5
    assert target.cpu().tolist() == [5, 5, 1]


def test_memory_of_the_cpu_is_refused_by_a_launch(device):
    refuse_cpu_pointers([1, torch.ones(2, device="cuda")])
    with pytest.raises(ValueError, match="at 1"):
        refuse_cpu_pointers([torch.ones(2, device="cuda"), torch.ones(2)])


def test_numpy_needs_the_cpu(device):
    with pytest.raises(TypeError):
        torch.ones(2, device="cuda").numpy()
    assert torch.ones(2, device="cuda").cpu().numpy().sum() == 2


def test_torch_cuda_speaks_of_the_target(device):
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    assert torch.cuda.get_device_capability() == (9, 0)
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.multi_processor_count == 132
    assert properties.shared_memory_per_block_optin == 232_448
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()) as _:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        torch.cuda.current_stream().wait_event(event)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def test_what_needs_a_compiler_of_the_host_is_replaced(device):
    @torch.compile(mode="max-autotune")
    def double(x):
        return x * 2

    assert double(torch.ones(1)).item() == 2
    from torch.utils.cpp_extension import load_inline

    with pytest.raises(NotInterpretable, match="extension"):
        load_inline(name="mine", cpp_sources="", cuda_sources="")


def test_everything_is_put_back():
    before = torch.cuda.is_available, torch.compile
    with virtual_cuda(CudaApi(find_target("gfx942")), default_cpu=True):
        assert torch.cuda.is_available is not before[0]
        assert torch.cuda.get_device_capability() == (9, 4)
        assert torch.cuda.get_device_properties(0).gcnArchName == "gfx942"
    assert (torch.cuda.is_available, torch.compile) == before
    assert not torch.zeros(1).is_cuda


@pytest.mark.parametrize(
    ("moves", "moved_bytes"),
    [
        (lambda x: x.cpu(), 4096),
        (lambda x: x.cpu().cuda(), 8192),
        (lambda x: x.to("cpu", torch.float64), 8192),
        (lambda x: x.tolist(), 4096),
        (lambda x: x.sum().item(), 4),
        (lambda x: torch.tensor([1.0, 2.0], device="cuda"), 8),
        (lambda x: torch.zeros(1024, device="cpu").copy_(x), 4096),
        (lambda x: x.copy_(torch.zeros(1024, device="cpu")), 4096),
        (lambda x: x.to("cuda", torch.float16), 0),
        (lambda x: (x + 1).sum(), 0),
        (lambda x: torch.zeros(1024, device="cuda"), 0),
    ],
)
def test_what_crosses_between_host_and_device_is_counted(moves, moved_bytes):
    x = torch.ones(1024)
    with virtual_cuda(CudaApi(find_target("sm_90")), default_cpu=True) as device:
        moves(x)
    assert device.moved_bytes == moved_bytes
