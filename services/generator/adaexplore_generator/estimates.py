"""What a generation can use at most and what it will probably use, before any model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from adaexplore_generator.domain import Prompt, Sampling, Usage, UsageEstimate
from adaexplore_generator.paid import Tariff
from adaexplore_generator.pricing import most_tokens
from adaexplore_generator.prompting import BYTES_PER_TOKEN, estimate_tokens

USUAL_REPLY_TOKENS = 3_000


@dataclass(frozen=True)
class PlannedCall:
    """One call that a generation may make.

    Attributes:
        prompt: Its prompt, without what earlier replies add to it.
        added: Budget in tokens of the sections that earlier replies may fill.
        usual: False for a call that only a reply that cannot be used leads to.

    """

    prompt: Prompt
    added: int = 0
    usual: bool = True


def estimate(tariff: Tariff, sampling: Sampling, calls: Sequence[PlannedCall]) -> UsageEstimate:
    """Return the estimate of a generation that makes these calls at most."""
    worst = sum((_worst(tariff, sampling, call) for call in calls), Usage())
    expected = sum((_expected(tariff, sampling, call) for call in calls if call.usual), Usage())
    return UsageEstimate(tariff.provider, tariff.model, worst, expected, tariff.listed)


def _worst(tariff: Tariff, sampling: Sampling, call: PlannedCall) -> Usage:
    # Budgets are counted at four bytes a token, worst cases at one.
    read, written = most_tokens(call.prompt) + BYTES_PER_TOKEN * call.added, sampling.max_output_tokens
    cost = tariff.bound(read, written).cost_micro_usd
    return Usage(tariff.times * read, output_tokens=tariff.times * written, calls=tariff.times, cost_micro_usd=cost)


def _expected(tariff: Tariff, sampling: Sampling, call: PlannedCall) -> Usage:
    read = sum(estimate_tokens(message.content) for message in call.prompt.messages)
    usage = Usage(read, output_tokens=min(USUAL_REPLY_TOKENS, sampling.max_output_tokens), calls=1)
    return replace(usage, cost_micro_usd=None if tariff.price is None else tariff.price.cost(usage))
