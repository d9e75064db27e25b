"""The paper's reward for every outcome."""

from __future__ import annotations

import pytest
from adaexplore_controller.domain import Evaluation, Verdict
from adaexplore_controller.policies import PaperReward
from hypothesis import given
from hypothesis import strategies as st


def evaluation(verdict: Verdict, cause: str = "", speedup: float | None = None) -> Evaluation:
    return Evaluation(b"", verdict, cause, speedup=speedup)


@pytest.mark.parametrize("cause", ["SYNTAX", "CONTRACT", "COMPILE"])
def test_what_never_compiled_earns_nothing(cause: str) -> None:
    assert PaperReward().of(evaluation(Verdict.FAILED, cause)) == 0.0


def test_a_step_without_a_kernel_earns_nothing() -> None:
    assert PaperReward().of(None) == 0.0


@pytest.mark.parametrize(
    ("verdict", "cause"),
    [
        *(
            (Verdict.FAILED, cause)
            for cause in ("LAUNCH", "RUNTIME", "FAULT", "TIMEOUT", "SHAPE", "NUMERIC", "MEMORY", "TRACK", "OUT_OF_MEMORY")
        ),
        (Verdict.REJECTED, "REPLAY"),
        (Verdict.REJECTED, "NO_KERNEL"),
        (Verdict.INCONCLUSIVE, "NOT_INTERPRETABLE"),
        (Verdict.INCONCLUSIVE, "SHAPE_DEPENDENT"),
    ],
)
def test_what_compiled_but_did_not_pass_earns_a_twentieth(verdict: Verdict, cause: str) -> None:
    assert PaperReward().of(evaluation(verdict, cause)) == 0.05


@pytest.mark.parametrize(
    ("speedup", "reward"), [(None, 0.4), (0.0, 0.4), (0.1, 0.4), (1.0, 0.4 + 1.2 * 0.9 / 9.9), (10.0, 1.6), (50.0, 1.6), (5.05, 1.0)]
)
def test_a_correct_kernel_earns_by_its_speedup_clipped_at_a_tenth_and_at_ten(speedup: float | None, reward: float) -> None:
    assert PaperReward().of(evaluation(Verdict.PASSED, speedup=speedup)) == pytest.approx(reward)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_faster_kernel_never_earns_less(one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    reward = PaperReward()
    low, high = (reward.of(evaluation(Verdict.PASSED, speedup=s)) for s in (slow, fast))
    assert 0.4 <= low <= high <= 1.6 + 1e-12
