"""Random choices that depend on nothing but seed, step and purpose."""

from __future__ import annotations

from adaexplore_controller.randomness import sample, seed_for, uniform
from hypothesis import given
from hypothesis import strategies as st


def test_seed_step_and_purpose_each_change_the_draw() -> None:
    draws = {uniform(7, 3, "move"), uniform(8, 3, "move"), uniform(7, 4, "move"), uniform(7, 3, "pool")}
    assert len(draws) == 4


def test_the_draws_are_those_of_every_other_run() -> None:
    assert seed_for(7, 3, "move") == 6661272413242994252
    assert "".join(sample("abcdefgh", 5, seed=7, step=3, purpose="pool")) == "bcdgh"


@given(st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_a_uniform_draw_lies_in_the_unit_interval(seed: int, step: int) -> None:
    assert 0.0 <= uniform(seed, step, "move") < 1.0


@given(st.lists(st.integers(), max_size=20), st.integers(0, 25))
def test_a_sample_keeps_order_and_takes_each_position_once(items: list[int], count: int) -> None:
    numbered = list(enumerate(items))
    taken = sample(numbered, count, seed=1, step=2, purpose="p")
    assert len(taken) == min(count, len(items))
    assert list(taken) == sorted(set(taken), key=lambda pair: pair[0])
