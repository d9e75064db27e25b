"""Time budgets by phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping

SETUP, COMPILE, TUNE, CHECK, TIMING, TASK, LOAD = "SETUP", "COMPILE", "TUNE", "CHECK", "TIMING", "TASK", "LOAD"
# A runner may say that it compiles or tunes inside a command; each phase has its own budget, so lying gains it a bounded time.
_RUNNER_PHASES = {"compile": COMPILE, "tune": TUNE, "check": CHECK, "interpret": CHECK}
_BUDGET_OF = {TUNE: COMPILE, LOAD: SETUP}


class PhaseClock:
    """Wall time spent by phase, and what is left of the current phase's budget.

    Args:
        budgets_s: Seconds by phase; loading counts as setup, tuning as compiling.
        now_s: A monotonic clock in seconds.
        notify: Called with each phase when it is first entered, and a few words.

    Attributes:
        phase: The current one.
        learnt: What a candidate's runner said when it last began to tune, on one line.

    """

    def __init__(self, budgets_s: Mapping[str, float], now_s: Callable[[], float], notify: Callable[[str, str], None]) -> None:
        self._budgets_s = dict(budgets_s)
        self._now_s = now_s
        self._notify = notify
        self._spent_s: dict[str, float] = {}
        self._since_s = now_s()
        self.phase = ""
        self.learnt = ""

    @property
    def spent_s(self) -> dict[str, float]:
        """Seconds by phase so far, in order of first entry."""
        self._settle()
        return dict(self._spent_s)

    def begin(self, phase: str, message: str = "") -> None:
        """Enter a phase, and tell about it the first time."""
        self._settle()
        if phase != self.phase:
            self.phase = phase
            first = phase not in self._spent_s
            self._spent_s.setdefault(phase, 0.0)
            if first:
                self._notify(phase, message)

    def enter(self, name: object, message: object) -> None:
        """Enter the phase that a candidate's runner names, if it is one that a runner may name; a task and timing have one budget each."""
        phase = _RUNNER_PHASES.get(name) if isinstance(name, str) else None
        if phase is not None and self.phase not in (TASK, TIMING):
            words = _one_line(message) if isinstance(message, str) else ""
            self.learnt = words if phase == TUNE else self.learnt
            self.begin(phase, words)

    def left_s(self, phase: str = "") -> float:
        """Seconds left of a phase's budget; of the current one without a name."""
        self._settle()
        budget = _BUDGET_OF.get(phase or self.phase, phase or self.phase)
        used = sum(seconds for phase, seconds in self._spent_s.items() if _BUDGET_OF.get(phase, phase) == budget)
        return self._budgets_s[budget] - used

    def excuse(self) -> None:
        """Charge nobody for the time since the phase was last looked at: other work was done."""
        self._since_s = self._now_s()

    def budget_s(self) -> float:
        """Seconds of the current phase's budget."""
        return self._budgets_s[_BUDGET_OF.get(self.phase, self.phase)]

    def _settle(self) -> None:
        now_s = self._now_s()
        if self.phase:
            self._spent_s[self.phase] += now_s - self._since_s
        self._since_s = now_s


def _one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())[:200]
