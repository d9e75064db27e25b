"""Edits of a kernel as models write them: read from a reply, placed rule by rule, applied all or not at all.

`markers` and `diffs` read, `elision` takes apart what is left out, `placing` and `fuzzy` find the place, `rewriting` says what changes
there, `applying` does it, and `definitions` takes over functions and files that a reply writes out in full.
"""

from adaexplore_generator.edits.applying import apply_edits
from adaexplore_generator.edits.definitions import code_beside, is_whole_file, with_definitions
from adaexplore_generator.edits.reading import parse_edits
from adaexplore_generator.edits.values import Applied, Edit, Misfit, MisfitError, ParsedEdits

__all__ = [
    "Applied",
    "Edit",
    "Misfit",
    "MisfitError",
    "ParsedEdits",
    "apply_edits",
    "code_beside",
    "is_whole_file",
    "parse_edits",
    "with_definitions",
]
