"""Policies by name."""

from __future__ import annotations

from adaexplore_controller.domain import PolicySpec
from adaexplore_controller.policies.adaexplore import AdaExplore, AdaExploreSettings
from adaexplore_controller.policies.base import Policy

DEFAULT_POLICY = "adaexplore"
POLICY_NAMES = (DEFAULT_POLICY,)


class UnknownPolicyError(ValueError):
    """No policy has the given name."""


def create_policy(spec: PolicySpec, seed: int) -> Policy:
    """Return the policy that a search asks for; UnknownPolicyError if there is none of that name."""
    if (spec.name or DEFAULT_POLICY) != DEFAULT_POLICY:
        raise UnknownPolicyError(f"no policy is called `{spec.name}`; known: {', '.join(POLICY_NAMES)}")
    paper = AdaExploreSettings()
    settings = AdaExploreSettings(
        exploration=paper.exploration if spec.exploration is None else spec.exploration,
        expansion=paper.expansion if spec.expansion is None else spec.expansion,
        structural_probability=paper.structural_probability if spec.structural_probability is None else spec.structural_probability,
    )
    return AdaExplore(settings, seed)
