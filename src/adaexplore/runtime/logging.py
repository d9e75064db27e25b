"""Structured log lines on standard error."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure_logging(level: str, form: str, service: str, stream: TextIO | None = None) -> None:
    """Set up structlog for this process.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        form: `json` for one JSON object a line, `console` for people.
        service: Name that every line carries.
        stream: Where lines go; standard error if absent.

    """
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
