"""A failure made ready for distilling."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from packaging.version import InvalidVersion, Version

from adaexplore_memory.domain import FailureReport, Scope
from adaexplore_memory.intake import diagnostic
from adaexplore_memory.patterns import Use, Uses, uses_of
from adaexplore_memory.sources import ParsedSource, parse

_MAX_SUBJECT_CHARACTERS = 200


@dataclass(frozen=True)
class Diagnosis:
    """A report, its source and what the compiler said.

    Attributes:
        report: The failure.
        source: The parsed candidate.
        text: What the compiler or the exception says; data.

    """

    report: FailureReport
    source: ParsedSource
    text: str

    @cached_property
    def series(self) -> str:
        """Minor version of Triton, for example `3.7`; empty when unknown."""
        try:
            release = Version(self.report.triton_version).release
        except InvalidVersion:
            return ""
        return ".".join(str(part) for part in (*release, 0)[:2])

    @property
    def scope(self) -> Scope:
        """The Triton series the failure was seen on."""
        return Scope(triton_versions=f"=={self.series}.*") if self.series else Scope()

    def signature(self, family: str, subject: str = "") -> str:
        """Return the signature of a lesson about Triton; each series learns its own, since names come and go."""
        if len(subject) > _MAX_SUBJECT_CHARACTERS:  # a candidate may use names of any length, and a signature is the key of an index
            subject = hashlib.sha256(subject.encode()).hexdigest()
        return ":".join(part for part in (family, subject) if part) + (f"@{self.series}" if self.series else "")

    @property
    def names(self) -> tuple[Use, ...]:
        """Dotted names that jit functions use."""
        return self._uses.names

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of node that jit functions use."""
        return frozenset(use.name for use in self._uses.kinds)

    @cached_property
    def _uses(self) -> Uses:
        return uses_of(self.source)

    def uses(self, dotted: str) -> bool:
        """Return whether a jit function uses a dotted name."""
        return any(use.name == dotted for use in self.names)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node of the jit functions."""
        for function in self.source.functions:
            for statement in function.node.body:
                yield from ast.walk(statement)


def diagnose(report: FailureReport) -> Diagnosis | None:
    """Return the diagnosis of a failure, or None if its source cannot be read."""
    source = parse(report.source)
    return Diagnosis(report, source, diagnostic(report)) if source else None
