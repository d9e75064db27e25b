"""Settings of the generator, from environment and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

from adaexplore.runtime.config import load_config
from adaexplore.runtime.store_config import StoreConfig
from adaexplore_generator.pricing import read_table
from adaexplore_generator.providers.anthropic import ANTHROPIC
from adaexplore_generator.providers.faults import Vendor
from adaexplore_generator.providers.gemini import GEMINI
from adaexplore_generator.providers.key import checked_key, read_key
from adaexplore_generator.providers.limits import Limits
from adaexplore_generator.providers.openai import OPENAI
from adaexplore_generator.providers.settings import EndpointSettings

PREFIX = "ADAEXPLORE_GENERATOR_"
# The names that other tools of this kind read; ours win.
_SHARED_NAMES = {f"{vendor.name.upper()}_BASE_URL": f"{vendor.name.upper()}_BASE_URL" for vendor in (OPENAI, ANTHROPIC)} | {
    vendor.shared_key: f"{vendor.name.upper()}_API_KEY" for vendor in (OPENAI, ANTHROPIC, GEMINI)
}


def _optional_path(value: object) -> object:
    # An empty variable is a setting left out: deployments write one where they have no file.
    return Path(str(value)).expanduser() if value else None


def _base_url(value: str, info: ValidationInfo) -> str:
    value = value.strip()
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError("is not a URL; write for example http://127.0.0.1:8000/v1") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must begin with http:// or https:// and name a host, for example http://127.0.0.1:8000/v1")
    # Azure's version is the one thing that a query may say: others hold keys, and URLs are shown in errors.
    allowed = {"api-version"} if info.field_name == "openai_base_url" else set()
    said = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.username or parts.password or parts.fragment or (parts.query and not said) or not said <= allowed:
        raise ValueError(
            "must not hold credentials, a fragment, or a query other than Azure's api-version; the key has a variable of its own"
        )
    return value


def _key(value: SecretStr) -> SecretStr:
    return SecretStr(checked_key(value.get_secret_value()))


def _key_file(value: Path | None, info: ValidationInfo) -> Path | None:
    if value is None:
        return None
    key_field = str(info.field_name).removesuffix("_file")
    given = info.data.get(key_field)
    if given and given.get_secret_value():
        shared = {ours: name for name, ours in _SHARED_NAMES.items()}[key_field.upper()]
        raise ValueError(f"the key is given by a variable too ({PREFIX}{key_field.upper()} or {shared}); leave one of them out")
    read_key(value)
    return value


_OptionalPath = Annotated[Path | None, BeforeValidator(_optional_path)]
_Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _endpoint_fields(vendor: Vendor, what: str, shared_url: str) -> dict[str, Any]:
    """Return the settings of one provider by name; each name begins with the provider's."""
    fields: dict[str, Any] = {
        "base_url": (
            Annotated[str, AfterValidator(_base_url)],
            Field("", description=f"base URL of {what}; empty means {vendor.base_url}{shared_url}"),
        ),
        "api_key": (
            Annotated[SecretStr, AfterValidator(_key)],
            Field(SecretStr(""), description=f"key of the endpoint; {vendor.shared_key} is read too"),
        ),
        "api_key_file": (
            Annotated[_OptionalPath, AfterValidator(_key_file)],
            Field(
                None,
                description="file that holds the key, for mounted secrets, closed to others; read again when it changes; empty, or absent "
                "from its folder, means no key",
            ),
        ),
        "model": (str, Field("", description=f"model for requests that name none; empty means {vendor.model} at the vendor's own endpoint "
                             "and the first that is listed elsewhere")),
        "reasoning_effort": (_Effort, Field("", description="how much a model shall think; empty leaves it to the model")),
        "connect_timeout_s": (float, Field(10.0, gt=0, le=600, description="longest time to connect in seconds")),
        "idle_timeout_s": (float, Field(600.0, gt=0, le=7200, description="longest silence of the endpoint in seconds")),
        "total_timeout_s": (
            float,
            Field(1800.0, gt=0, le=86400, description="longest time of one model call in seconds, retries and waits included"),
        ),
        "attempts": (int, Field(4, ge=1, le=20, description="most attempts of a model call that is safe to repeat")),
        "longest_wait_s": (float, Field(60.0, ge=0, le=3600, description="longest Retry-After that is waited for in seconds")),
        "hedge_after_s": (
            float,
            Field(0.0, ge=0, le=3600, description="seconds without a first token after which a second, equal request is sent, which may be "
                  "paid for too; 0 for never"),
        ),
        "concurrency": (int, Field(64, ge=1, le=10_000, description="most calls at once")),
        "requests_per_minute": (int, Field(0, ge=0, description="most requests in any minute; 0 for no limit")),
        "tokens_per_minute": (int, Field(0, ge=0, description="most tokens in any minute, prompts and replies together; 0 for no limit")),
    }  # fmt: skip
    return {f"{vendor.name}_{name}": field for name, field in fields.items()}


class GeneratorSettings(StoreConfig):
    """Settings of the generator; each is a flag and a variable `ADAEXPLORE_GENERATOR_…`, but secrets are variables only.

    `GeneratorConfig` has those of the providers too; `endpoint` returns them.
    """

    default_provider: Literal["templates", "openai", "anthropic", "gemini", "replay", "external"] = Field(
        "templates", description="provider for requests that name none"
    )
    prices_file: Path | None = Field(
        None, description="JSON file of prices that come before those of the package; the package's prices.json shows the form"
    )
    local_calls: Literal["two", "one"] = Field(
        "two", description="`two`: a LOCAL move takes a review and then edits, as in the paper; `one`: both in one reply"
    )
    log_prompts: bool = Field(False, description="write prompts and replies into the log whole; otherwise it has their digests alone")
    external_patience_s: float = Field(1700.0, gt=0, le=86_400, description="how long a prompt waits for somebody to answer it, in seconds")
    record: _OptionalPath = Field(None, description="file that every reply of a model is appended to, for the provider `replay`")
    replay_file: _OptionalPath = Field(None, description="recorded file that the provider `replay` answers from")

    @pydantic.field_validator("prices_file")
    @classmethod
    def _prices(cls, value: Path | None) -> Path | None:
        if value is not None:
            read_table(value)
        return value

    def endpoint(self, name: str) -> EndpointSettings:
        """Return how the endpoint of a provider is reached."""
        given = {field.removeprefix(f"{name}_"): getattr(self, field) for field in type(self).model_fields if field.startswith(f"{name}_")}
        limits = Limits(given.pop("concurrency"), given.pop("requests_per_minute"), given.pop("tokens_per_minute"))
        return EndpointSettings(**given | {"api_key": given["api_key"].get_secret_value(), "limits": limits})


# The settings of all providers are the same but for their names.
GeneratorConfig: type[GeneratorSettings] = pydantic.create_model(
    "GeneratorConfig",
    __base__=GeneratorSettings,
    **_endpoint_fields(OPENAI, "an OpenAI-compatible endpoint", "; OPENAI_BASE_URL is read too"),
    **_endpoint_fields(ANTHROPIC, "an endpoint of Anthropic's Messages API", "; ANTHROPIC_BASE_URL is read too"),
    **_endpoint_fields(GEMINI, "Gemini's OpenAI-compatible endpoint", ""),
)


def load(argv: Sequence[str], environ: Mapping[str, str]) -> GeneratorSettings:
    """Return the configuration that environment and flags describe.

    Raises:
        ConfigError: Names every wrong setting, flag or variable.

    """
    shared = {PREFIX + ours: environ[name] for name, ours in _SHARED_NAMES.items() if environ.get(name)}
    return load_config(GeneratorConfig, PREFIX, argv, shared | dict(environ))
