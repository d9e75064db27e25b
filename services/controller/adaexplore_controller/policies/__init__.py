"""Policies: which node to expand next, by which move, and what the generator is shown."""

from adaexplore_controller.policies.adaexplore import AdaExplore, AdaExploreSettings
from adaexplore_controller.policies.base import Policy
from adaexplore_controller.policies.registry import POLICY_NAMES, UnknownPolicyError, create_policy
from adaexplore_controller.policies.reward import PaperReward

__all__ = ["POLICY_NAMES", "AdaExplore", "AdaExploreSettings", "PaperReward", "Policy", "UnknownPolicyError", "create_policy"]
