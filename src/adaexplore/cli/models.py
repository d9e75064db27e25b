"""Names of models on the command line: `MODEL`, `PROVIDER:MODEL`, `PROVIDER:MODEL@WEIGHT`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from adaexplore.cli.failures import CliError
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.generator.v1 import generator_pb2

PROVIDERS = ("templates", "openai", "anthropic", "gemini", "replay", "external")
_WEIGHT = re.compile(r"@(\d+(?:\.\d+)?)$")


class EnsembleChoice(StrEnum):
    """How one of several models is chosen."""

    BANDIT = "bandit"
    WEIGHTS = "weights"


def set_models(spec: pb.SearchSpec, names: Sequence[str], provider: str, max_output_tokens: int, choice: EnsembleChoice) -> None:
    """Write the models into a spec: one as its model, several as its ensemble.

    Raises:
        CliError: A name is empty, or a weight is given to a single model.

    """
    members = [_member(name, provider, max_output_tokens) for name in names]
    if len(members) > 1:
        policy = pb.ENSEMBLE_POLICY_BANDIT if choice is EnsembleChoice.BANDIT else pb.ENSEMBLE_POLICY_WEIGHTS
        spec.ensemble.CopyFrom(pb.Ensemble(members=members, policy=policy))
    elif members:
        spec.model.CopyFrom(members[0].model)
    else:
        spec.model.CopyFrom(generator_pb2.ModelSpec(provider=provider or "templates", max_output_tokens=max_output_tokens))


def providers_of(spec: pb.SearchSpec) -> list[str]:
    """Return the providers that a spec names, each once."""
    models = [member.model for member in spec.ensemble.members] if spec.HasField("ensemble") else [spec.model]
    return list(dict.fromkeys(model.provider for model in models))


def model_name(model: generator_pb2.ModelSpec) -> str:
    """Return a model's name as it is written on the command line."""
    return f"{model.provider}:{model.model}" if model.model else model.provider


def _member(text: str, provider: str, max_output_tokens: int) -> pb.EnsembleMember:
    name, weight = text.strip(), 1.0
    if found := _WEIGHT.search(name):
        name, weight = name[: found.start()], float(found[1])
    # A model's own name may hold a colon, for example `qwen2.5-coder:7b`.
    before, colon, after = name.partition(":")
    if colon and before in PROVIDERS:
        provider, name = before, after
    elif name in PROVIDERS:
        provider, name = name, ""
    elif not name:
        raise CliError(f"--model {text!r}: is no model; write MODEL or PROVIDER:MODEL, with @WEIGHT behind it if you like")
    model = generator_pb2.ModelSpec(provider=provider or "openai", model=name, max_output_tokens=max_output_tokens)
    return pb.EnsembleMember(model=model, weight=weight)
