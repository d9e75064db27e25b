"""Names of models on the command line."""

import pytest

from adaexplore.cli.failures import CliError
from adaexplore.cli.models import EnsembleChoice, model_name, providers_of, set_models
from adaexplore.controller.v1 import controller_pb2 as pb


def written(*names, provider="", choice=EnsembleChoice.BANDIT):
    spec = pb.SearchSpec()
    set_models(spec, names, provider, 100, choice)
    return spec


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("gpt-5-mini", "openai", "gpt-5-mini"),
        ("anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("qwen2.5-coder:7b", "openai", "qwen2.5-coder:7b"),
        ("openai:qwen2.5-coder:7b", "openai", "qwen2.5-coder:7b"),
        ("deepseek/deepseek-chat", "openai", "deepseek/deepseek-chat"),
        ("templates", "templates", ""),
        ("gemini:", "gemini", ""),
    ],
)
def test_a_model_is_named_with_or_without_its_provider(text, provider, model):
    found = written(text).model
    assert (found.provider, found.model, found.max_output_tokens) == (provider, model, 100)


def test_without_a_model_the_templates_write():
    assert written().model.provider == "templates"
    assert written(provider="external").model.provider == "external"


def test_several_models_are_an_ensemble_with_weights():
    spec = written("gpt-5-mini", "anthropic:claude-haiku-4-5@2.5", "templates@0.5", choice=EnsembleChoice.WEIGHTS)
    assert [(model_name(member.model), member.weight) for member in spec.ensemble.members] == [
        ("openai:gpt-5-mini", 1.0),
        ("anthropic:claude-haiku-4-5", 2.5),
        ("templates", 0.5),
    ]
    assert spec.ensemble.policy == pb.ENSEMBLE_POLICY_WEIGHTS
    assert providers_of(spec) == ["openai", "anthropic", "templates"]


def test_an_empty_name_is_refused():
    with pytest.raises(CliError, match="is no model"):
        written("")
