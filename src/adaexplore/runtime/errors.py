"""Typed errors that travel as rich gRPC statuses, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

_PREFIX = "ERROR_REASON_"


@dataclass(frozen=True)
class FieldViolation:
    """One field of a request that is missing or malformed.

    Attributes:
        field: Path of the field in the request, for example `task.source`.
        description: What is wrong and what to send instead.

    """

    field: str
    description: str


class ServiceError(Exception):
    """An error of ours, as opposed to a verdict about a kernel.

    Args:
        message: One line for people that says what to do.
        reason: Name from the API's `ErrorReason` enum, with or without its prefix.
        metadata: Facts for machines, added to the `ErrorInfo`.
        violations: Fields that are wrong; sent as `BadRequest`.
        resource: Name of the resource the error speaks of; sent as `ResourceInfo`.
        retry_after_s: When to come back, in seconds; sent as `RetryInfo`.
        domain: Service that speaks; the server fills it in.

    """

    code: grpc.StatusCode = grpc.StatusCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        resource: str = "",
        retry_after_s: float | None = None,
        domain: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason.removeprefix(_PREFIX)
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.resource = resource
        self.retry_after_s = retry_after_s
        self.domain = domain

    def to_status(self, domain: str) -> status_pb2.Status:
        """Return the rich status that the server sends; `domain` names the service."""
        details = [error_details_pb2.ErrorInfo(reason=self.reason, domain=self.domain or domain, metadata=self.metadata)]
        packed = [_pack(detail) for detail in details]
        if self.violations:
            bad = error_details_pb2.BadRequest()
            for violation in self.violations:
                bad.field_violations.add(field=violation.field, description=violation.description)
            packed.append(_pack(bad))
        if self.resource:
            packed.append(_pack(error_details_pb2.ResourceInfo(resource_name=self.resource, description=self.message)))
        if self.retry_after_s is not None:
            delay = duration_pb2.Duration()
            delay.FromNanoseconds(int(self.retry_after_s * 1e9))
            packed.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
        return status_pb2.Status(code=self.code.value[0], message=self.message, details=packed)


class InvalidArgumentError(ServiceError):
    """The request is wrong whatever the state of the server."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFoundError(ServiceError):
    """No resource has this name."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(ServiceError):
    """The resource exists."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPreconditionError(ServiceError):
    """The request is right but the server is not in the state it needs."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class AbortedError(ServiceError):
    """The resource changed meanwhile; read it again."""

    code = grpc.StatusCode.ABORTED


class UnauthenticatedError(ServiceError):
    """The caller's token is missing or unknown."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDeniedError(ServiceError):
    """Credentials are missing or refused by what the service depends on."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhaustedError(ServiceError):
    """Too much is asked for at once; `retry_after_s` says when to come back."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnavailableError(ServiceError):
    """The service or what it depends on is out of reach; a retry may help."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineError(ServiceError):
    """The deadline passed."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledByCallerError(ServiceError):
    """The caller cancelled the call."""

    code = grpc.StatusCode.CANCELLED


class UnimplementedError(ServiceError):
    """The server does not know the method."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(ServiceError):
    """A defect of ours."""


def _pack(
    message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest | error_details_pb2.ResourceInfo | error_details_pb2.RetryInfo,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def _by_code() -> dict[grpc.StatusCode, type[ServiceError]]:
    return {kind.code: kind for kind in ServiceError.__subclasses__()}


def from_rpc_error(error: grpc.RpcError, peer: str = "") -> ServiceError:
    """Return the typed error that a failed call carries.

    Args:
        error: What grpc raised, sync or async.
        peer: Name of the service called, for the message when the call never reached it.

    """
    code = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    kind = _by_code().get(code, InternalError)
    # `from_call` reads an AioRpcError as well as a synchronous call; its `.aio` variant does not.
    status = rpc_status.from_call(cast(grpc.Call, error)) if hasattr(error, "trailing_metadata") else None
    if status is None:
        details = (error.details() if hasattr(error, "details") else "") or str(error)
        return kind(f"{peer}: {details}" if peer else details)
    found = kind(status.message)
    for detail in status.details:
        _unpack_into(found, detail)
    return found


def _unpack_into(found: ServiceError, detail: any_pb2.Any) -> None:
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    resource, retry = error_details_pb2.ResourceInfo(), error_details_pb2.RetryInfo()
    if detail.Unpack(info):
        found.reason, found.domain, found.metadata = info.reason, info.domain, dict(info.metadata)
    elif detail.Unpack(bad):
        found.violations = tuple(FieldViolation(v.field, v.description) for v in bad.field_violations)
    elif detail.Unpack(resource):
        found.resource = resource.resource_name
    elif detail.Unpack(retry):
        found.retry_after_s = retry.retry_delay.ToNanoseconds() / 1e9
