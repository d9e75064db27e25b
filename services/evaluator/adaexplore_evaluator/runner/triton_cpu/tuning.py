"""What autotuners choose: by estimate at full shape, and one configuration after another while numbers are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton.runtime.autotuner import Autotuner, Config

_MOST_LISTED = 64


@dataclass(frozen=True)
class Tuning:
    """The configurations that the tuners of one call know; several tuners advance together, those with fewer begin again.

    Attributes:
        configurations: Those that run at this shape, described; the ones chosen at full shape come first.
        chosen: How many of them were chosen at full shape.
        unfit: Those chosen at full shape that the tuner pruned or that did not fit at this one, described.

    """

    configurations: list[str] = field(default_factory=list)
    chosen: int = 0
    unfit: list[str] = field(default_factory=list)


class JudgedChoices(dict[Any, Config]):
    """A tuner's cache whose entries are decided from outside.

    The tuner stores what it found best under a key; reading the key answers the configuration number `index` of those that ran, where the
    ones chosen at full shape come first. A negative `index` names one that was chosen at full shape and did not run here, -1 the first.
    """

    def __init__(self, chosen_at_full: dict[Any, Config]) -> None:
        super().__init__()
        self._chosen_at_full = chosen_at_full
        self._ran: dict[Any, list[Config]] = {}
        self._tried: list[Config] = []
        self.index = 0

    def tried(self, config: Config) -> None:
        """Note that a configuration ran while the tuner was at work."""
        self._tried.append(config)

    def __setitem__(self, key: Any, config: Config) -> None:
        self._ran[key], self._tried = self._tried, []
        super().__setitem__(key, config)

    def __getitem__(self, key: Any) -> Config:
        fitting, unfit = self._fitting(key), self._unfit(key)
        if self.index < 0 and unfit:
            return unfit[(-self.index - 1) % len(unfit)]
        return fitting[max(self.index, 0) % len(fitting)] if fitting else super().__getitem__(key)

    def tuning(self) -> Tuning:
        """What the tuner knows, by the key with the most configurations."""
        key = max(self._ran, key=lambda known: len(self._ran[known]), default=None)
        if key is None:
            return Tuning()
        fitting = self._fitting(key)
        chosen = sum(1 for config in fitting if config in self._chosen())
        return Tuning([str(config) for config in fitting], chosen, [str(config) for config in self._unfit(key)])

    def _chosen(self) -> list[Config]:
        return list(dict.fromkeys(self._chosen_at_full.values()))

    def _fitting(self, key: Any) -> list[Config]:
        ran, chosen = self._ran.get(key, []), self._chosen()
        return [config for config in chosen if config in ran] + [config for config in ran if config not in chosen]

    def _unfit(self, key: Any) -> list[Config]:
        return [config for config in self._chosen() if config not in self._ran.get(key, [])]


class TuningMemory:
    """The choices of a process's tuners; give one to every session, so that what is estimated is what is judged."""

    def __init__(self) -> None:
        self._at_full: dict[Autotuner, dict[Any, Config]] = {}
        self._judged: dict[Autotuner, JudgedChoices] = {}

    def at_full(self, tuner: Autotuner) -> dict[Any, Config]:
        """The tuner's cache at full shape."""
        return self._at_full.setdefault(tuner, {})

    def judged(self, tuner: Autotuner) -> JudgedChoices:
        """The tuner's cache at the judged shape."""
        return self._judged.setdefault(tuner, JudgedChoices(self.at_full(tuner)))


def combined(tunings: Sequence[tuple[str, Tuning]]) -> Tuning:
    """The tuning of a call of several tuners, each with its kernel's name."""
    return Tuning(
        _together([(name, tuning.configurations) for name, tuning in tunings]),
        max((tuning.chosen for _, tuning in tunings), default=0),
        _together([(name, tuning.unfit) for name, tuning in tunings]),
    )


def noting_trials(bench: Callable[..., list[float]], choices: JudgedChoices) -> Callable[..., list[float]]:
    """A tuner's benchmark that notes which configurations ran."""

    def note(*args: Any, config: Config, **meta: Any) -> list[float]:
        times = bench(*args, config=config, **meta)
        if times[0] != float("inf"):
            choices.tried(config)
        return times

    return note


def _together(described: Sequence[tuple[str, list[str]]]) -> list[str]:
    count = min(max((len(texts) for _, texts in described), default=0), _MOST_LISTED)
    return ["; ".join(f"{name}: {texts[number % len(texts)]}" for name, texts in described if texts) for number in range(count)]
