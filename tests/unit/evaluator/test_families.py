import torch
from adaexplore_evaluator.referee.families import NEAR_ONE, TRANSFORMS, one_element_changed, perturbed, rounded_to, transformed


def generator():
    return torch.Generator().manual_seed(0)


def test_integers_and_infinities_keep_their_values():
    inputs = [torch.tensor([1.0, float("-inf"), -2.0]), torch.tensor([3, 4])]
    for family in TRANSFORMS:
        floats, integers = transformed(inputs, family)
        assert torch.equal(integers, inputs[1])
        assert floats[1] == float("-inf")
        assert not torch.equal(floats, inputs[0])


def test_positive_inputs_become_sign_mixed_when_shifted():
    (shifted,) = transformed([torch.rand(1000, generator=generator()) + 5], "shifted")
    assert shifted.min() < 0 < shifted.max()


def test_strides_and_expansion_stay():
    base = torch.randn(4, 6, generator=generator())
    inputs = [base.t(), base[:, :1].expand(4, 6), base[1:, 2:]]
    for before, after in zip(inputs, transformed(inputs, "scaled_up"), strict=True):
        assert after.stride() == before.stride()
        assert torch.equal(after, before * 3)


def test_one_element_of_each_tensor_is_changed():
    inputs = [torch.randn(50, generator=generator()), torch.arange(5)]
    changed = one_element_changed(inputs, generator(), 4.0)
    assert int((changed[0] != inputs[0]).sum()) == 1
    assert torch.equal(changed[1], inputs[1])
    assert one_element_changed([torch.arange(5)], generator(), 4.0) is None


def test_perturbation_stays_within_the_rounding_of_the_class():
    x = torch.randn(1000, generator=generator())
    moved = perturbed(x, 2.0**-11, generator())
    assert moved.dtype == torch.float64
    relative = ((moved - x.double()) / x.double()).abs()
    assert 0 < float(relative.max()) <= 2.0**-11


def test_rounding_to_seven_bits_is_bfloat16():
    x = torch.randn(1000, generator=generator())
    assert torch.equal(rounded_to(x, 7), x.bfloat16().double())
    special = torch.tensor([float("inf"), float("nan"), 0.0])
    assert torch.equal(rounded_to(special, 7).isnan(), special.isnan())


def test_values_around_one_keep_their_order_and_their_infinities():
    x = torch.tensor([3.0, -float("inf"), 1.0, 2.0, 1000.0])
    found = transformed([x], NEAR_ONE)[0]
    assert found[1] == x[1]
    assert found[[2, 3, 0, 4]].diff().gt(0).all()
    assert found[[0, 2, 3, 4]].min() > 0.2
    assert found[[0, 2, 3, 4]].max() < 2.0


def test_constant_inputs_become_one_constant_near_one():
    assert torch.allclose(transformed([torch.full((4,), 7.0)], NEAR_ONE)[0], torch.tensor(1.05))
