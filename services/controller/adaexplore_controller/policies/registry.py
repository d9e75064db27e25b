"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from adaexplore_controller.domain import PolicySpec
from adaexplore_controller.policies.adaexplore import AdaExplore, AdaExploreSettings
from adaexplore_controller.policies.base import Policy
from adaexplore_controller.policies.beam import Beam
from adaexplore_controller.policies.default import Default
from adaexplore_controller.policies.epsilon_greedy import EpsilonGreedy
from adaexplore_controller.policies.evolve import Evolve
from adaexplore_controller.policies.simple import BestOfN, Iterative

DEFAULT_POLICY: Final = "adaexplore"
_BY_SEED: Final[Mapping[str, Callable[[int], Policy]]] = {
    "default": Default,
    "epsilon_greedy": EpsilonGreedy,
    "evolve": Evolve,
    "beam": Beam,
    "iterative": Iterative,
    "best_of_n": BestOfN,
}
POLICY_NAMES: Final = (DEFAULT_POLICY, *_BY_SEED)


class UnknownPolicyError(ValueError):
    """No policy has the given name, or the policy has not the given settings."""


def create_policy(spec: PolicySpec, seed: int) -> Policy:
    """Return the policy that a search asks for; UnknownPolicyError if there is none of that name, or none with such settings."""
    name = spec.name or DEFAULT_POLICY
    if name not in POLICY_NAMES:
        raise UnknownPolicyError(f"no policy is called `{spec.name}`; known: {', '.join(POLICY_NAMES)}")
    if name == DEFAULT_POLICY:
        return AdaExplore(_settings(spec), seed)
    if (spec.exploration, spec.expansion, spec.structural_probability) != (None, None, None):
        raise UnknownPolicyError(
            f"`{name}` takes no exploration, expansion or structural_probability; leave them out or choose `adaexplore`"
        )
    return _BY_SEED[name](seed)


def _settings(spec: PolicySpec) -> AdaExploreSettings:
    paper = AdaExploreSettings()
    return AdaExploreSettings(
        exploration=paper.exploration if spec.exploration is None else spec.exploration,
        expansion=paper.expansion if spec.expansion is None else spec.expansion,
        structural_probability=paper.structural_probability if spec.structural_probability is None else spec.structural_probability,
    )
