"""When a candidate is so far behind the best baseline that few samples suffice."""

import pytest
from adaexplore_evaluator.referee.cuda.first_look import Bar, bar_of


@pytest.mark.parametrize(
    ("busy_us", "end_to_end_us", "hopeless"),
    [
        ([31.0, 31.2, 31.1], [100.0, 100.0, 100.0], True),
        ([31.0, 29.9, 31.1], [100.0, 100.0, 100.0], False),
        ([31.0, 31.2], [100.0, 100.0], False),
        ([31.0, 60.0, 31.1], [100.0, 100.0, 100.0], False),
        ([29.0, 29.0, 29.0], [100.0, 100.0, 100.0], False),
        ([], [61.0, 62.0, 61.5], True),
        ([], [59.0, 59.0, 59.0], False),
        ([], [], False),
    ],
)
def test_steady_samples_that_are_all_three_times_slower_suffice(busy_us, end_to_end_us, hopeless):
    assert Bar(busy_us=10.0, end_to_end_us=20.0).is_out_of_reach(busy_us, end_to_end_us) is hopeless


def test_without_a_baseline_nothing_is_hopeless():
    assert not Bar().is_out_of_reach([1e9, 1e9, 1e9], [1e9, 1e9, 1e9])
    assert bar_of([], []) == Bar()


def test_the_best_baseline_sets_the_bar_and_like_is_compared_with_like():
    assert bar_of([[10.0, 11.0, 12.0], [8.0, 9.0, 10.0]], [[20.0], [30.0]]) == Bar(9.0, 20.0)
    eager_only_plain = bar_of([[], [8.0, 9.0, 10.0]], [[20.0], [30.0]])
    assert eager_only_plain == Bar(0.0, 20.0)
    assert eager_only_plain.is_out_of_reach([31.0, 31.0, 31.0], [61.0, 61.0, 61.0])
