"""Settings of the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pydantic
from pydantic import Field, ValidationInfo

from adaexplore.client.security import ChannelSecurity
from adaexplore.runtime.addresses import is_loopback
from adaexplore.runtime.config import AuthoritiesFile, CertificateFile, KeyFile, TokenFile, checked_key
from adaexplore.runtime.store_config import StoreConfig

ENVIRONMENT_PREFIX = "ADAEXPLORE_CONTROLLER_"
_PEERS = ("generator", "evaluator", "memory")


class ControllerConfig(StoreConfig):
    """Settings of the controller service; without a database URL its store is `controller.sqlite3` in the state folder."""

    generator_address: str = Field("", validate_default=True, description="HOST:PORT of the generator, required")
    evaluator_address: str = Field("", validate_default=True, description="HOST:PORT of the evaluator, required")
    memory_address: str = Field("", validate_default=True, description="HOST:PORT of the memory, required")
    peer_ca_file: AuthoritiesFile = Field(
        None, description="PEM file of the authorities of the three services' certificates; TLS is spoken with them if it is set"
    )
    peer_cert_file: CertificateFile = Field(None, description="PEM file of the certificate that the three services demand of this one")
    peer_key_file: KeyFile = Field(None, validate_default=True, description="PEM file of that certificate's key, closed to others")
    peer_token_file: TokenFile = Field(
        None, description="file that holds the token for the three services, closed to others; read again when it changes"
    )
    generator_token_file: TokenFile = Field(None, description="file of a token for the generator alone, in place of the shared one")
    evaluator_token_file: TokenFile = Field(None, description="file of a token for the evaluator alone, in place of the shared one")
    memory_token_file: TokenFile = Field(None, description="file of a token for the memory alone, in place of the shared one")
    peer_insecure_call: Literal["no", "plaintext"] = Field(
        "no", validate_default=True, description="`plaintext` lets the token go beyond loopback without TLS"
    )
    resume: Literal["on-start", "on-request"] = Field(
        "on-start", description="`on-start` takes abandoned searches over, `on-request` marks them INTERRUPTED until ResumeSearch"
    )
    max_running: int = Field(4, ge=1, le=1000, description="searches that run at once; others wait")
    max_cost_per_day_usd: float | None = Field(
        None,
        ge=0,
        description="USD that all searches together may cost on one day (UTC); searches with a model of unknown price are refused",
    )
    lease_s: float = Field(10.0, ge=1, le=3600, description="seconds after which the searches of a silent controller may be taken over")
    peer_patience_s: float = Field(120.0, ge=0, le=86_400, description="seconds to wait for a service that is out of reach")
    provider_patience_s: float = Field(20.0, ge=0, le=86_400, description="seconds to wait for a model provider that is out of reach")
    describe_deadline_s: float = Field(900.0, gt=0, description="deadline of DescribeTask in seconds")
    generate_deadline_s: float = Field(1800.0, gt=0, description="deadline of GenerateKernel in seconds")
    evaluate_deadline_s: float = Field(3600.0, gt=0, description="deadline of EvaluateKernel in seconds")
    compile_deadline_s: float = Field(600.0, gt=0, description="deadline of CompileKernel in seconds")
    memory_deadline_s: float = Field(30.0, gt=0, description="deadline of a call to the memory in seconds")

    @pydantic.field_validator(*(f"{name}_address" for name in _PEERS))
    @classmethod
    def _address(cls, value: str) -> str:
        host, separator, port = value.rpartition(":")
        if not (host and separator and port.isdigit() and 0 < int(port) <= 65535):
            raise ValueError("must be the HOST:PORT of a running service")
        return value

    @pydantic.field_validator("peer_cert_file")
    @classmethod
    def _check_peer_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value and info.data.get("peer_ca_file", value) is None:
            raise ValueError("needs --peer-ca-file too")
        return value

    @pydantic.field_validator("peer_key_file")
    @classmethod
    def _check_peer_key(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        return checked_key(value, info, "peer_cert_file")

    @pydantic.field_validator("peer_insecure_call")
    @classmethod
    def _check_peer_protection(cls, value: str, info: ValidationInfo) -> str:
        named = [name for name in _PEERS if info.data.get(f"{name}_token_file") or info.data.get("peer_token_file")]
        beyond = [address for name in named if not is_loopback(address := info.data.get(f"{name}_address", "localhost:0"))]
        if value == "no" and beyond and info.data.get("peer_ca_file", value) is None:
            raise ValueError(
                f"the token is not sent to {beyond[0]} in plaintext, where everybody on the way can read it; set --peer-ca-file, "
                "or say --peer-insecure-call plaintext"
            )
        return value

    @property
    def max_cost_per_day_micro_usd(self) -> int | None:
        """Most that may be spent on one day in micro-USD; None means no limit."""
        return None if self.max_cost_per_day_usd is None else int(self.max_cost_per_day_usd * 1_000_000)

    def peer_security(self, name: str) -> ChannelSecurity:
        """Return how the service of that name is called: generator, evaluator or memory."""
        return ChannelSecurity(
            ca_file=self.peer_ca_file,
            cert_file=self.peer_cert_file,
            key_file=self.peer_key_file,
            token_file=getattr(self, f"{name}_token_file") or self.peer_token_file,
            insecure_call=self.peer_insecure_call,
        )
