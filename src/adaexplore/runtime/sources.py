"""Identity of candidates: the digest of a source that comments and layout do not change."""

from __future__ import annotations

import ast
import hashlib


def normalise(source: str) -> str:
    """Return the source without comments and layout; text that is not Python is only stripped."""
    try:
        return ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source.strip()


def kernel_digest(source: str) -> str:
    """Return the SHA-256 of the normalised source, lower-case hex."""
    return hashlib.sha256(normalise(source).encode("utf-8", "surrogatepass")).hexdigest()
