"""The cpu device's latency estimate: datasheets, a roofline per launch, and the baselines of PyTorch eager and torch.compile."""

from adaexplore_evaluator.devices.cpu.baseline import Baseline, BaselineKind, estimate_baselines
from adaexplore_evaluator.devices.cpu.datasheet import Datasheet, UnknownTargetError, datasheet, known_targets
from adaexplore_evaluator.devices.cpu.estimate import Estimate, LaunchEstimate, estimate_candidate
from adaexplore_evaluator.devices.cpu.graph import MalformedGraphError
from adaexplore_evaluator.devices.cpu.launches import MalformedLaunchError, Resources
from adaexplore_evaluator.devices.cpu.occupancy import DoesNotFitError, Occupancy, occupancy

__all__ = [
    "Baseline",
    "BaselineKind",
    "Datasheet",
    "DoesNotFitError",
    "Estimate",
    "LaunchEstimate",
    "MalformedGraphError",
    "MalformedLaunchError",
    "Occupancy",
    "Resources",
    "UnknownTargetError",
    "datasheet",
    "estimate_baselines",
    "estimate_candidate",
    "known_targets",
    "occupancy",
]
