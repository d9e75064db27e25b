"""Configuration from environment and flags; every problem is listed at once."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo

from adaexplore.runtime.addresses import checked_address, is_loopback
from adaexplore.runtime.credentials import read_authorities, read_chain, read_key, read_token
from adaexplore.runtime.tokens import read_callers


def _file(read: Callable[[Path], object]) -> tuple[BeforeValidator, AfterValidator]:
    """Validators of a setting that names a file which must be usable; `read` raises CredentialError, a ValueError, if it is not."""

    def expand(value: object) -> Path | None:
        # An empty variable is a setting left out: deployments write one where they have no file.
        return Path(str(value)).expanduser() if value else None

    def check(value: Path | None) -> Path | None:
        if value:
            read(value)
        return value

    return BeforeValidator(expand), AfterValidator(check)


AuthoritiesFile = Annotated[Path | None, *_file(read_authorities)]
CertificateFile = Annotated[Path | None, *_file(lambda path: read_chain(path, datetime.now(UTC)))]
KeyFile = Annotated[Path | None, *_file(read_key)]
TokenFile = Annotated[Path | None, *_file(read_token)]
TokensFile = Annotated[Path | None, *_file(read_callers)]
ConfigT = TypeVar("ConfigT", bound="ServiceConfig")


class ConfigError(Exception):
    """The configuration is wrong.

    Args:
        problems: One line for each wrong setting, naming its flag and its variable.

    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class ServiceConfig(BaseModel):
    """Settings that every service has; a service adds its own in a subclass.

    Each field is a flag `--its-name` and a variable `ADAEXPLORE_<SERVICE>_ITS_NAME`; a flag wins. A `SecretStr` has no flag, since
    argument lists are public.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = Field("127.0.0.1:0", description="address to bind; port 0 takes a free one")
    state_dir: Path = Field(Path("~/.local/share/adaexplore"), description="folder for what must survive a restart")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe log line written")
    log_format: Literal["json", "console"] = Field("json", description="form of log lines")
    drain_s: float = Field(10.0, ge=0, le=3600, description="seconds that calls in flight may take after SIGTERM")
    max_deadline_s: float = Field(3600.0, gt=0, description="longest deadline of a unary call in seconds; also used where a call has none")
    parent_pid: int = Field(0, ge=0, description="stop when this process, which started the service, ends; 0 for none")
    tls_cert_file: CertificateFile = Field(
        None, description="PEM file of the certificate with its chain; this and the next three are read again when they change"
    )
    tls_key_file: KeyFile = Field(None, validate_default=True, description="PEM file of the certificate's key, closed to others")
    tls_client_ca_file: AuthoritiesFile = Field(None, description="PEM file of authorities; client certificates signed by one are demanded")
    tokens_file: TokensFile = Field(None, description="file of lines NAME:TOKEN or NAME:sha256:HEX, closed to others; tokens are demanded")
    probe_listen: str = Field(
        "",
        description="a second address that answers health checks alone, in plaintext and to anybody, as probes have neither TLS nor "
        "token; it may be beyond loopback because it tells nothing but SERVING or NOT_SERVING",
    )
    insecure_listen: Literal["no", "plaintext", "anonymous", "plaintext-and-anonymous"] = Field(
        "no", validate_default=True, description="what --listen may lack beyond loopback: TLS (plaintext), tokens (anonymous), or both"
    )

    @pydantic.field_validator("state_dir")
    @classmethod
    def _expand(cls, value: Path) -> Path:
        return value.expanduser()

    @pydantic.field_validator("listen", "probe_listen")
    @classmethod
    def _check_addresses(cls, value: str, info: ValidationInfo) -> str:
        return checked_address(value) if value or info.field_name == "listen" else value

    @pydantic.field_validator("tls_key_file")
    @classmethod
    def _check_server_key(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        return checked_key(value, info, "tls_cert_file")

    @pydantic.field_validator("tls_client_ca_file")
    @classmethod
    def _check_client_authorities(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value and info.data.get("tls_cert_file", value) is None:
            raise ValueError("needs --tls-cert-file and --tls-key-file too")
        return value

    @pydantic.field_validator("insecure_listen")
    @classmethod
    def _check_protection(cls, value: str, info: ValidationInfo) -> str:
        listen = str(info.data.get("listen", "localhost:0"))  # an address that is refused already is not judged again
        lacks = {"plaintext": "tls_cert_file", "anonymous": "tokens_file"}
        missing = [word for word, setting in lacks.items() if info.data.get(setting, value) is None]
        if is_loopback(listen) or set(missing) <= set(value.split("-and-")):
            return value
        flags = {"plaintext": "no TLS (--tls-cert-file, --tls-key-file)", "anonymous": "no tokens (--tokens-file)"}
        raise ValueError(
            f"--listen {listen} is beyond loopback and has {' and '.join(flags[word] for word in missing)}; "
            f"set what is missing, or say --insecure-listen {'-and-'.join(missing)}"
        )


def checked_key(value: Path | None, info: ValidationInfo, cert_setting: str) -> Path | None:
    """Return the file of a key that belongs to the certificate in another setting; for validators of settings.

    Raises:
        ValueError: One of the two is missing, or the key belongs to another certificate.

    """
    flag = f"--{cert_setting.replace('_', '-')}"
    cert = info.data.get(cert_setting)
    if value is None:
        if cert:
            raise ValueError(f"is needed beside {flag}")
        return None
    if cert is None and cert_setting in info.data:
        raise ValueError(f"needs {flag} too")
    if cert:
        read_key(value, read_chain(cert, datetime.now(UTC))[0])
    return value


def load_config(kind: type[ConfigT], prefix: str, argv: Sequence[str], environ: Mapping[str, str]) -> ConfigT:
    """Return the configuration that environment and flags describe.

    Args:
        kind: The service's config class.
        prefix: Start of its environment variables, for example `ADAEXPLORE_MEMORY_`.
        argv: Flags, without the program name.
        environ: Environment variables.

    Raises:
        ConfigError: Names every wrong setting, flag or variable.

    """
    given, problems = _from_environment(kind, prefix, environ)
    flags, unknown = _parser(kind, prefix).parse_known_args(list(argv))
    problems += _unknown_problems(unknown)
    given |= {name: value for name, value in vars(flags).items() if value is not None}
    try:
        config = kind.model_validate(given)
    except pydantic.ValidationError as error:
        problems += [_describe(item["loc"], item["msg"], kind, prefix) for item in error.errors()]
    if problems:
        raise ConfigError(problems)
    return config


def _from_environment(kind: type[ServiceConfig], prefix: str, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    given: dict[str, str] = {}
    problems: list[str] = []
    for variable, value in environ.items():
        if not variable.startswith(prefix):
            continue
        name = variable.removeprefix(prefix).lower()
        if name in kind.model_fields:
            given[name] = value
        else:
            problems.append(f"{variable}: no such setting; --help lists them")
    return given, problems


def _parser(kind: type[ServiceConfig], prefix: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"adaexplore serve {prefix.split('_')[1].lower()}", allow_abbrev=False)
    for name, field in kind.model_fields.items():
        if _is_secret(field.annotation):
            continue
        default = "none" if field.default in (None, "") else field.default
        flag, text = f"--{name.replace('_', '-')}", f"{field.description or ''} (default {default})"
        if field.annotation is bool:
            parser.add_argument(flag, dest=name, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(flag, dest=name, default=None, metavar="VALUE", help=text.replace("%", "%%"))
    return parser


def _unknown_problems(unknown: Sequence[str]) -> list[str]:
    # Only names: what stands beside them may be a secret that was given by mistake.
    names = [item.partition("=")[0] for item in unknown if item.startswith("-")]
    stray = ["there are words that belong to no flag; --help lists the flags"] if unknown and not names else []
    return [f"{name}: no such flag; --help lists them" for name in names] + stray


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or SecretStr in typing.get_args(annotation)


def _describe(location: tuple[int | str, ...], message: str, kind: type[ServiceConfig], prefix: str) -> str:
    name = str(location[0]) if location else ""
    variable = f"{prefix}{name.upper()}"
    if name in kind.model_fields and _is_secret(kind.model_fields[name].annotation):
        return f"{variable}: {message}"
    return f"--{name.replace('_', '-')} ({variable}): {message}"
