import math

import pytest
import torch
from adaexplore_generator.synthesis import compose, load_operators

from adaexplore.runtime.errors import InvalidArgumentError


def run(source):
    space = {}
    exec(compile(source, "task.py", "exec"), space)
    torch.manual_seed(0)
    return space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())


@pytest.mark.parametrize("seed", range(60))
def test_a_composed_task_runs_and_gives_one_finite_tensor(seed):
    made = compose(seed)
    assert 3 <= len(made.operators) <= 6
    result = run(made.source)
    assert result.dtype == torch.float32
    assert result.isfinite().all()


def test_the_listed_shapes_are_those_that_torch_gives():
    shapes = {2: (10, 36), 3: (3, 28, 31), 4: (3, 12, 18, 23)}
    for operator in load_operators():
        shape = shapes[operator.rank]
        space = {"torch": torch, "x": torch.randn(shape), "y": torch.randn(shape)}
        if operator.layer:
            space["layer"] = eval(operator.layer.format(c=shape[1], l=shape[-1]), space)
        call = operator.call.replace("{x}", "x").replace("{y}", "y").replace("{m}", "layer")
        assert tuple(eval(call, space).shape) == operator.result(shape), operator
        assert math.prod(operator.result(shape)) > 0


def test_the_same_seed_gives_the_same_task_and_other_seeds_give_others():
    made = [compose(seed) for seed in range(200)]
    assert made == [compose(seed) for seed in range(200)]
    assert len({task.digest for task in made}) == 200


def test_a_known_structure_is_not_composed_again():
    first = compose(7)
    assert compose(7, known={first.digest}).digest != first.digest


def test_only_the_operators_that_were_named_are_used():
    wanted = ["torch.nn.GELU", "torch.nn.Softsign", "torch.nn.LayerNorm"]
    assert set(compose(1, wanted).operators) <= set(wanted)


def test_an_unknown_operator_is_named():
    with pytest.raises(InvalidArgumentError, match=r"torch\.nn\.Nothing"):
        compose(1, ["torch.nn.Nothing"])


def test_names_that_allow_no_new_task_are_refused():
    seen = {compose(seed, ["torch.nn.Softsign"]).digest for seed in range(200)}
    with pytest.raises(InvalidArgumentError, match="allow no task"):
        compose(1, ["torch.nn.Softsign"], seen)
