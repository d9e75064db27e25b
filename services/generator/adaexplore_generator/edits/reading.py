"""Reads the edits of a reply, in whichever form it has them."""

from __future__ import annotations

from adaexplore_generator.edits.diffs import parse_diff
from adaexplore_generator.edits.markers import parse_blocks
from adaexplore_generator.edits.values import ParsedEdits


def parse_edits(reply: str, source: str) -> ParsedEdits:
    """Return the search/replace blocks of a reply and the hunks of its diffs.

    Args:
        reply: The reply's visible text.
        source: The kernel that is edited.

    """
    blocks, rest = parse_blocks(reply)
    hunks = parse_diff(rest, source)
    return ParsedEdits((*blocks.edits, *hunks.edits), blocks.problem or hunks.problem)
