import pytest
from integration.generator.conftest import KERNEL, candidate_of, failed, generator

from adaexplore.client.generator import GeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError, InvalidArgumentError
from adaexplore.types.v1 import kernel_pb2, task_pb2

TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x + 1.0) * x


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""


def description():
    kind = task_pb2.TensorType(dtype=task_pb2.D_TYPE_FLOAT32, shape=[4096, 4096], strides=[4096, 1])
    x = task_pb2.GraphValue(name="x", type=kind, kind=task_pb2.VALUE_KIND_INPUT, state_name="x")
    results = [task_pb2.GraphValue(name=name, type=kind, kind=task_pb2.VALUE_KIND_RESULT) for name in ("a", "b", "y")]
    ref = {name: task_pb2.Argument(value_name=name) for name in ("x", "a", "b")}
    calls = [
        task_pb2.OperatorCall(operator="aten.add.Tensor", args=[ref["x"], task_pb2.Argument(float_value=1.0)], results=["a"]),
        task_pb2.OperatorCall(operator="aten.relu.default", args=[ref["a"]], results=["b"]),
        task_pb2.OperatorCall(operator="aten.mul.Tensor", args=[ref["b"], ref["x"]], results=["y"]),
    ]
    return task_pb2.TaskDescription(
        format=task_pb2.TASK_FORMAT_MODULE,
        entry_point="ModelNew",
        inputs=[task_pb2.TaskInput(name="x", tensor=kind)],
        outputs=[kind],
        graph=task_pb2.OperatorGraph(values=[x, *results], calls=calls, outputs=["y"]),
    )


@pytest.fixture(scope="module")
def client(state_dir):
    with generator(state_dir) as address, GeneratorClient(address) as client:
        yield client


@pytest.fixture
def request_kernel(request_id):
    def make(**fields):
        base = {
            "request_id": request_id,
            "task": {"name": "t", "source": TASK},
            "description": description(),
            "device": {"kind": kernel_pb2.DEVICE_KIND_CPU, "target": "sm_90"},
            "move": kernel_pb2.MOVE_STRUCTURAL,
            "seed": 3,
        }
        return pb.GenerateKernelRequest(**(base | fields))

    return make


def test_the_default_provider_writes_a_kernel_for_nothing(client, request_kernel):
    candidate = candidate_of(client.generate_kernel(request_kernel(max_cost_micro_usd=0)))
    assert (candidate.outcome, candidate.provider) == (pb.GENERATE_OUTCOME_KERNEL, "templates")
    assert "class ModelNew" in candidate.kernel.source
    assert len(candidate.kernel.digest) == 64
    assert candidate.recipe
    assert candidate.usage.HasField("cost_micro_usd")
    assert (candidate.usage.cost_micro_usd, candidate.usage.calls, candidate.prompt_digest) == (0, 0, "")


def test_the_same_request_gets_the_same_kernel_from_another_server(client, request_kernel, tmp_path):
    first = candidate_of(client.generate_kernel(request_kernel()))
    with generator(tmp_path) as address, GeneratorClient(address) as other:
        assert candidate_of(other.generate_kernel(request_kernel())) == first


def test_a_local_move_goes_on_from_the_recipe_of_its_parent(client, request_kernel):
    parent = candidate_of(client.generate_kernel(request_kernel()))
    window = [pb.ContextKernel(kernel=parent.kernel, recipe=parent.recipe)]
    child = candidate_of(
        client.generate_kernel(request_kernel(move=kernel_pb2.MOVE_LOCAL, context=window, known_digests=[parent.kernel.digest]))
    )
    assert child.outcome == pb.GENERATE_OUTCOME_KERNEL
    assert child.kernel.digest != parent.kernel.digest


def test_a_task_without_a_graph_is_told_why(client, request_kernel):
    request = request_kernel(description=task_pb2.TaskDescription(graph_absent_reason="control flow depends on data"))
    with pytest.raises(FailedPreconditionError, match="control flow depends on data") as caught:
        list(client.generate_kernel(request))
    assert caught.value.reason == "GRAPH_REQUIRED"


def test_what_needs_a_model_says_so(client, request_id):
    calls = [
        lambda: client.distill_skill(pb.DistillSkillRequest(request_id=request_id, kernel={"source": KERNEL}, evaluation=failed())),
        lambda: client.judge_duplicate(pb.JudgeDuplicateRequest(request_id=request_id, rule="You cannot a.")),
    ]
    for call in calls:
        with pytest.raises(FailedPreconditionError) as caught:
            call()
        assert caught.value.reason == "MODEL_REQUIRED"


def test_a_task_is_composed_without_a_model_and_the_same_for_the_same_request(client, request_id):
    first = client.synthesize_task(pb.SynthesizeTaskRequest(request_id=request_id))
    assert first.task.format == task_pb2.TASK_FORMAT_MODULE
    assert "class Model(" in first.task.source
    assert (first.usage.cost_micro_usd, first.usage.calls) == (0, 0)
    assert client.synthesize_task(pb.SynthesizeTaskRequest(request_id=request_id)) == first
    assert client.synthesize_task(pb.SynthesizeTaskRequest(request_id=request_id + "-2")).task.source != first.task.source


def test_an_operator_that_the_composer_does_not_know_is_named(client, request_id):
    with pytest.raises(InvalidArgumentError, match=r"torch\.nn\.Nothing"):
        client.synthesize_task(pb.SynthesizeTaskRequest(request_id=request_id, operators=["torch.nn.Nothing"]))
