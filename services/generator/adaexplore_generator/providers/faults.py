"""What may go wrong at an endpoint, as typed errors, and whether trying again is safe."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

import httpx

from adaexplore.runtime.errors import (
    AbortedError,
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    ServiceError,
    UnavailableError,
)
from adaexplore_generator.errors import PromptTooLongError

# What a busy endpoint is given where it does not say how long to wait.
_UNSAID_WAIT_S = 10.0
_CONTEXT = re.compile(
    r"context.{0,40}(?:length|window|size)|exceed.{0,30}context|prompt is too long|too many (?:input )?tokens", re.IGNORECASE
)
_NO_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)


@dataclass(frozen=True)
class Vendor:
    """Whose endpoint it is, for settings and for what errors say.

    Attributes:
        name: Name of the provider, for example `openai`.
        protocol: What its endpoints speak, for example `OpenAI chat`.
        base_url: Base URL of the vendor's own endpoint.
        model: Default model there.
        path: What base URLs end in.
        shared_key: Variable of the key that other tools read too.

    """

    name: str
    protocol: str
    base_url: str
    model: str
    path: str
    shared_key: str

    @property
    def key_variable(self) -> str:
        """Our own variable of the key."""
        return f"ADAEXPLORE_GENERATOR_{self.name.upper()}_API_KEY"


class SafeToRetryError(Exception):
    """Nothing was generated, so the same call may be made again.

    Args:
        error: What to raise when no attempt is left.
        wait_s: How long the endpoint asks to wait, in seconds; None if it does not say.

    """

    def __init__(self, error: ServiceError, wait_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_s = wait_s


class RefusedRequestError(FailedPreconditionError):
    """The endpoint does not take a request as it is.

    Args:
        message: One line for people.
        complaint: The endpoint's own words.
        adaptable: True if other fields may help.

    """

    def __init__(self, message: str, complaint: str, *, adaptable: bool) -> None:
        super().__init__(message, reason="PROVIDER_REFUSED_REQUEST")
        self.complaint = complaint
        self.adaptable = adaptable


@dataclass(frozen=True)
class Answered:
    """An answer with an error status.

    Attributes:
        vendor: Whose endpoint answered.
        url: What was asked.
        model: The model that was asked for.
        status: HTTP status.
        headers: HTTP headers.
        message: The endpoint's own words, shortened and without secrets.
        code: The endpoint's own error code or type; may be empty.
        generating: True if a reply was asked for, so that something may have been generated.

    """

    vendor: Vendor
    url: str
    model: str
    status: int
    headers: Mapping[str, str]
    message: str
    code: str
    generating: bool

    @property
    def said(self) -> str:
        """The endpoint's words as the end of a sentence."""
        return f": {self.message}" if self.message else ""


def key_missing(vendor: Vendor, base_url: str) -> FailedPreconditionError:
    """Return the error for an endpoint that needs a key where none is set."""
    return FailedPreconditionError(
        f"{base_url} needs a key: set {vendor.key_variable} or {vendor.shared_key} in the generator's environment, or put it into the "
        f"file that {vendor.key_variable}_FILE names",
        reason="KEY_MISSING",
    )


def unreachable(url: str, error: httpx.HTTPError) -> UnavailableError:
    """Return the error for an endpoint that did not answer."""
    what = "did not accept a connection in time" if isinstance(error, httpx.ConnectTimeout) else str(error) or type(error).__name__
    return UnavailableError(f"cannot reach {url}: {what}; is the server running and the base URL right?", reason="PROVIDER_UNREACHABLE")


def broke_off(url: str, what: str, *, generating: bool) -> ServiceError:
    """Return the error for an answer that stopped midway; see `_kind` for `generating`."""
    return _kind(generating)(f"{url} broke off: {what}", reason="PROVIDER_UNREACHABLE")


def not_the_protocol(vendor: Vendor, url: str, what: str, *, generating: bool) -> ServiceError:
    """Return the error for an answer that is not the vendor's protocol; see `_kind` for `generating`."""
    return _kind(generating)(
        f"{url} does not speak the {vendor.protocol} protocol: {what}; check that the base URL names a compatible endpoint",
        reason="PROVIDER_PROTOCOL",
    )


def reported(url: str, message: str, *, unstarted: bool) -> Exception:
    """Return the error that an endpoint reported inside a stream; `unstarted` if it was too busy to begin."""
    if _CONTEXT.search(message):
        return PromptTooLongError(message)
    if unstarted:
        return SafeToRetryError(_busy(f"{url} is too busy: {message}", None))
    return AbortedError(f"{url} reported an error while it answered: {message}", reason="PROVIDER_UNREACHABLE")


def _kind(generating: bool) -> type[ServiceError]:
    """Callers repeat UNAVAILABLE by themselves; what a model may have generated already must not be paid for again."""
    return AbortedError if generating else UnavailableError


def raise_for_status(answer: Answered, now: datetime) -> NoReturn:
    """Raise what an error status means.

    Raises:
        SafeToRetryError: 429, 502, 503 or 529: nothing was generated.
        PromptTooLongError: The prompt does not fit into the model's context.
        ServiceError: Anything else; the reason says what.

    """
    url, status = answer.url, answer.status
    if status in (401, 403):
        message = f"{url} refused the key (HTTP {status}){answer.said}; check {answer.vendor.key_variable}"
        raise PermissionDeniedError(message, reason="KEY_REFUSED")
    if status == 404:
        raise NotFoundError(
            f"{url} answered HTTP 404 for model {answer.model!r}{answer.said}; check the model's name and that the base URL ends in "
            f"{answer.vendor.path}",
            reason="MODEL_UNKNOWN",
        )
    if status in (429, 502, 503, 529) and not (status == 429 and _NO_CREDIT.search(f"{answer.code} {answer.message}")):
        raise _for_a_while(answer, retry_after_s(answer.headers, now))
    if status >= 500:
        raise _kind(answer.generating)(f"{url} failed (HTTP {status}){answer.said}", reason="PROVIDER_UNREACHABLE")
    if status in (400, 413, 422) and _CONTEXT.search(f"{answer.code.replace('_', ' ')} {answer.message}"):
        raise PromptTooLongError(answer.message)
    if 300 <= status < 400:
        raise not_the_protocol(answer.vendor, url, f"it redirects (HTTP {status})", generating=answer.generating)
    raise refused_request(answer)


def _for_a_while(answer: Answered, wait_s: float | None) -> SafeToRetryError:
    if answer.status in (429, 529):
        asks = "asks to slow down" if answer.status == 429 else "is overloaded"
        return SafeToRetryError(_busy(f"{answer.url} {asks} (HTTP {answer.status}){answer.said}", wait_s), wait_s)
    message = f"{answer.url} is not available (HTTP {answer.status}){answer.said}"
    return SafeToRetryError(UnavailableError(message, reason="PROVIDER_UNREACHABLE"), wait_s)


def busy(url: str, wait_s: float) -> ResourceExhaustedError:
    """Return the error for an endpoint that told another call how long to leave it alone, in seconds."""
    return _busy(f"{url} asked to be left alone for another {wait_s:.0f} s", wait_s)


def kept_waiting(url: str, waited_s: float) -> ResourceExhaustedError:
    """Return the error for a call that was not made within its deadline, in seconds, since too much was asked already."""
    return _busy(f"no call of {url} was possible within its limits for {waited_s:g} s; raise them, or the total timeout", None)


def _busy(message: str, wait_s: float | None) -> ResourceExhaustedError:
    return ResourceExhaustedError(message, reason="PROVIDER_BUSY", retry_after_s=wait_s or _UNSAID_WAIT_S)


def refused_request(answer: Answered) -> RefusedRequestError:
    """Return the error for a request that the endpoint does not take as it is."""
    message = f"{answer.url} refused the request (HTTP {answer.status}){answer.said}"
    return RefusedRequestError(message, answer.message, adaptable=answer.status in (400, 422))


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait, in either of its forms; None if there is none."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        instant = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return max(0.0, instant.timestamp() - now.timestamp())
