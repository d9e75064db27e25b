"""When few samples suffice: a candidate that is far behind the best baseline needs no exact latency, only a right verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SAMPLES: Final = 3
# So many times slower than the best baseline, in the same precision class, in each of the samples.
HOPELESS: Final = 3.0
# What scatters more than this needs the samples that tell whether it is noise.
_SCATTER: Final = 0.06


@dataclass(frozen=True)
class Bar:
    """Latencies of the best baselines in microseconds, by replays of graphs and end to end; 0 where none is known.

    Like is compared with like: a captured candidate with captured baselines, everything else end to end.
    """

    busy_us: float = 0.0
    end_to_end_us: float = 0.0

    def is_out_of_reach(self, busy_us: Sequence[float], end_to_end_us: Sequence[float]) -> bool:
        """True if a candidate's first samples agree, and are all so slow that no further ones are needed."""
        samples_us, best_us = (busy_us, self.busy_us) if busy_us and self.busy_us else (end_to_end_us, self.end_to_end_us)
        if len(samples_us) < SAMPLES or not best_us:
            return False
        least_us, most_us = min(samples_us), max(samples_us)
        return least_us > HOPELESS * best_us and most_us - least_us <= _SCATTER * least_us


def bar_of(busy_us: Sequence[Sequence[float]], end_to_end_us: Sequence[Sequence[float]]) -> Bar:
    """The bar that baselines set, from the samples of each.

    Args:
        busy_us: Samples by replays of graphs; empty for a baseline that cannot be captured, beside which all count end to end.
        end_to_end_us: Samples end to end.

    """

    def best(samples: Sequence[Sequence[float]]) -> float:
        return min(map(statistics.median, samples)) if samples and all(samples) else 0.0

    return Bar(best(busy_us), best(end_to_end_us))
