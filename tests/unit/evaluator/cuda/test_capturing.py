"""What a capture that is broken off leaves behind in torch: nothing."""

import contextlib

import pytest
import torch
from adaexplore_evaluator.runner.cuda import driver
from adaexplore_evaluator.runner.cuda.capturing import captured
from adaexplore_evaluator.runner.cuda.driver import Capture

BEFORE, OTHER = object(), object()


@pytest.fixture
def gpu(monkeypatch):
    """Torch's state on a GPU as far as captures change it."""
    state = {"stream": BEFORE, "recording": [], "released": [], "generator": ["first"]}

    class Generator:
        def clone_state(self):
            return "renewed"

        def graphsafe_set_state(self, found):
            state["generator"].append(found)

    @contextlib.contextmanager
    def graph(_graph, pool):
        state["stream"] = OTHER
        state["recording"].append(pool)
        yield
        state["recording"].remove(pool)
        state["stream"] = BEFORE

    def end(_device, pool):
        if pool not in state["recording"]:
            raise RuntimeError("not recording")
        state["recording"].remove(pool)

    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 7))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: state["stream"])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: state.update(stream=stream))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "default_generators", (Generator(),))
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda _device, pool: state["released"].append(pool), raising=False)
    return state


def test_a_broken_capture_leaves_stream_allocator_and_generator_in_order(gpu):
    with pytest.raises(RuntimeError, match="asks the host"), captured(None):
        raise RuntimeError("asks the host")
    assert gpu == {"stream": BEFORE, "recording": [], "released": [(0, 7)], "generator": ["first", "renewed"]}


def test_a_pool_whose_recording_has_ended_is_left_to_its_graph(gpu):
    def too_large():
        gpu["recording"].clear()
        raise RuntimeError("too large")

    with pytest.raises(RuntimeError, match="too large"), captured(None):
        too_large()
    assert gpu["released"] == []


def test_a_capture_that_succeeds_changes_nothing_else(gpu):
    with captured(None):
        assert gpu["stream"] is OTHER
    assert gpu == {"stream": BEFORE, "recording": [], "released": [], "generator": ["first"]}


@pytest.fixture
def driver_calls(monkeypatch):
    """Names of the driver's calls; a capture's stream depends on as many nodes as `waits` says."""
    asked, waits = [], [3]

    def call(name, *arguments):
        asked.append(name)
        if name == "cuStreamGetCaptureInfo_v2":
            arguments[3]._obj.value, arguments[5]._obj.value = 7, waits[0]
        if name == "cuGraphGetNodes":
            arguments[2]._obj.value = 12

    monkeypatch.setattr(driver, "_call", call)
    return asked, waits


def test_a_stream_that_waits_for_several_nodes_is_joined_by_one(driver_calls):
    asked, waits = driver_calls
    Capture(1).join()
    assert asked == ["cuStreamGetCaptureInfo_v2", "cuGraphAddEmptyNode", "cuStreamUpdateCaptureDependencies"]
    asked.clear()
    waits[0] = 1
    Capture(1).join()
    assert asked == ["cuStreamGetCaptureInfo_v2"]
    assert Capture(1).nodes() == 12


def test_without_a_driver_nothing_is_known_of_a_capture(monkeypatch):
    def absent(*_):
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(driver, "_call", absent)
    Capture(1).join()
    assert Capture(1).nodes() == 0
