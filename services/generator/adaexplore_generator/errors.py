"""The generator's errors: why a call failed, and what to do about it."""

from __future__ import annotations

from adaexplore.runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError, NotFoundError


class PromptTooLongError(Exception):
    """The model's context window is too small for a prompt and its reply; a shorter prompt may fit.

    Args:
        message: What the endpoint said, shortened.

    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def request_invalid(field: str, description: str) -> InvalidArgumentError:
    """Return the error for one wrong field of a request."""
    return InvalidArgumentError(f"{field} {description}", reason="REQUEST_INVALID", violations=[FieldViolation(field, description)])


def provider_unknown(name: str, known: tuple[str, ...]) -> NotFoundError:
    """Return the error for a provider that does not exist."""
    return NotFoundError(f"there is no provider {name!r}; choose one of {', '.join(known)}", reason="PROVIDER_UNKNOWN")


def model_required(what: str) -> FailedPreconditionError:
    """Return the error for a call that needs a model where the provider has none."""
    return FailedPreconditionError(f"{what} needs a model and `templates` has none; name another provider", reason="MODEL_REQUIRED")
