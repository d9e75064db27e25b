"""The paper's linear reward."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_controller.domain import Evaluation, Verdict

_NOTHING_RAN = frozenset({"SYNTAX", "CONTRACT", "COMPILE"})


@dataclass(frozen=True, slots=True)
class PaperReward:
    """Rewards of the paper: not compiled 0, wrong 0.05, correct `0.4 + 1.2·(clip(s, 0.1, 10) − 0.1) / 9.9`."""

    wrong: float = 0.05
    correct: float = 0.4
    gain: float = 1.2
    least_speedup: float = 0.1
    most_speedup: float = 10.0

    def of(self, evaluation: Evaluation | None) -> float:
        """Return the reward of an evaluation, 0 where there was no kernel to evaluate.

        FAILED by SYNTAX, CONTRACT or COMPILE earns 0. Every later failure, REJECTED, and INCONCLUSIVE (a device that cannot judge:
        it did compile) earn 0.05. PASSED earns by its speedup over the best baseline, 0.4 if it was not timed.
        """
        if evaluation is None:
            return 0.0
        if evaluation.verdict is Verdict.PASSED:
            return self.of_outcome(compiled=True, correct=True, speedup=evaluation.speedup)
        compiled = not (evaluation.verdict is Verdict.FAILED and evaluation.cause in _NOTHING_RAN)
        return self.of_outcome(compiled=compiled, correct=False, speedup=None)

    def of_outcome(self, *, compiled: bool, correct: bool, speedup: float | None) -> float:
        """Return the reward of an outcome; `speedup` is a ratio, None if unknown."""
        if not compiled:
            return 0.0
        if not correct:
            return self.wrong
        if speedup is None:
            return self.correct
        clipped = min(max(speedup, self.least_speedup), self.most_speedup)
        return self.correct + self.gain * (clipped - self.least_speedup) / (self.most_speedup - self.least_speedup)
